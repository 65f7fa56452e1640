/* Written by tests/page/data_types.py from tl_ffblock/page/data.py. */

/** The positions that all blocks and runs of a page share. */
export interface PageText {
  queries: number[];
  layers: number[];
  causal: boolean;
  words: number[];
  special: number[];
  segments: ([string, number])[];
  named: boolean;
  details: string[];
}

/** Where the page opens: a channel of the first block, the positions of a row and a column, a run and the one compared with. */
export interface PageStart {
  layer: number;
  scope: string;
  to: number;
  from: number;
  run: number;
  refRun: number;
  view: "overview" | "maps" | "heads" | "all" | "scores" | "memories" | "numbers" | "graph" | "logit";
  heads: string;
}

/** A number that is attributed; nodes have rank and probability of its `token`. */
export interface PageTarget {
  name: string;
  value: number;
  token: string;
}

/** A node of a graph, where it lies, and what its card says. */
export interface PageNode {
  column: number;
  lane: number;
  label: string;
  short: string;
  name: string;
  says: string[];
  facts: ([string, number])[];
  shares: number[];
  own_shares: number[];
  rest_shares: number[];
  unseen: number;
  ranks: number[];
  probabilities: number[];
  entropy: number | null;
}

/** What one node gives to another, by target `shares` and, for the slider, `weights`; some are `always` shown. */
export interface PageEdge {
  source: number;
  target: number;
  unit: string;
  size: number;
  shares: number[];
  weights: number[];
  always: boolean;
}

/** A layered graph. */
export interface GraphBlock {
  heading: string;
  meaning: string;
  columns: string[];
  lanes: number;
  nodes: PageNode[];
  edges: PageEdge[];
  targets: PageTarget[];
  widths: Record<string, string>;
  certificate: string;
  shown: number;
  position: number;
  start: number;
}

/** a run as it is sent */
export interface PageRun {
  name: string;
  tokens: string[];
  blocks: Record<string, any>;
}

/** all that a page of a text is sent */
export interface Payload extends PageText {
  model: string;
  heading: string;
  runs: PageRun[];
  start: PageStart;
  certificate: Record<string, any> | null;
  precision: number;
  layered: boolean;
  statement: string;
  provenance: Record<string, string>;
}
