/* Written by tests/page/data_types.py from tl_ffblock/page/data.py. */

/** Positions of the text, common to all blocks and runs of a page. */
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

/** Opening state of a page: layer, channel of the first block, positions of row and column, run, run of comparison, view. */
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

/** A target; nodes have rank and probability of its `token`. */
export interface PageTarget {
  name: string;
  value: number;
  token: string;
}

/** A node of a graph, with its place and the text of its card. */
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

/** An edge of a graph, with attributions `shares` and the slider's `weights` by target; some edges are `always` shown. */
export interface PageEdge {
  source: number;
  target: number;
  unit: string;
  size: number;
  shares: number[];
  weights: number[];
  always: boolean;
  span: string;
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
  counts: string;
  drawn: string;
  n_edges: number;
  size: number;
  signed: boolean;
  removal: boolean;
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
