/** The global that the bundle of CircuitsVis defines. */
declare const CircuitsVis: { render(place: string, component: any, properties: object): void; AttentionPattern: any };
