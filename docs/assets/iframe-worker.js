// Search from a folder: browsers start no workers from file://, so a worker's script runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      const base = new URL(url, location);
      const load = (source) =>
        new Promise((loaded, failed) => {
          const script = inside.document.createElement("script");
          Object.assign(script, { src: new URL(source, base), onload: loaded, onerror: failed });
          inside.document.body.append(script);
        });
      // The worker calls postMessage(data): in a frame that has to reach this object.
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...sources) => sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
      this.inside = inside;
      this.ready = load(base);
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }
  };
}
