/* The rail's numbers: how much each step changed a layer's map. No DOM. */

import { formatPercent } from "./numbers.js";
import { largest, sortedAt } from "./shares.js";

/** The tracks of the block that is shown, in views of heads of that of heads: one group of columns each. */
export function tracksOf(scene) {
  const { data, selection } = scene;
  return data.runs[selection.run].blocks[scene.headsBlock || data.channels.get(selection.scope).blockName].tracks;
}

/* Where colours of a stretched track begin: so many of its numbers are below. */
const FAINT = 0.05;

/** Where each track's colours begin and end: from zero on one scale for all, those of a stretched one on its own, but for few that are far below.
 * @returns {[number, number][]} */
export function trackRanges(tracks) {
  const numbers = tracks.map((track) => Object.entries(track.values).filter(([channel]) => channel !== "residual").flatMap(([, values]) => values).filter((value) => value !== null));
  const shared = largest(numbers.filter((_, index) => !tracks[index].stretched).flat());
  return tracks.map((track, index) => (track.stretched ? [sortedAt([...numbers[index]], Math.floor(FAINT * (numbers[index].length - 1))), largest(numbers[index])] : [0, shared]));
}

/** What the ends of a stretched track's colours are; nothing of others, which begin at zero. */
export function rangeWords(track) {
  if (!track.stretched) return "";
  const [[least, most]] = trackRanges([track]);
  return `${formatPercent(least, 2)} to ${formatPercent(most, 2)}`;
}

/** A number of a track, with as many decimals as every other. */
export function formatTrack(value) {
  return value === null ? "undefined" : value.toFixed(3);
}

/** What steps have changed together, one after another, at the selected layer: "Layer 5 since Atb: +FF 0.097 → +RES 0.061". */
export function wayOfChanges(scene) {
  const { data, selection } = scene;
  const index = data.layers.indexOf(selection.layer);
  return tracksOf(scene).filter((track) => track.cumulative).map((track) => {
    const way = track.columns.map(({ label, channel }) => `${label}\u00a0${formatTrack(track.values[channel][index])}`);
    return `Layer ${selection.layer} ${track.title}: ${way.join(" → ")}`;
  }).join(" ");
}
