/* The rail's numbers: how much each step changed a layer's map. No DOM. */

/** The tracks of the block that is shown: one group of columns each. */
function tracksOf(scene) {
  const { data, selection } = scene;
  return data.runs[selection.run].blocks[data.channels.get(selection.scope).blockName].tracks;
}

/** Where each track's colours begin and end: from zero on one scale for all, those of a stretched one on its own. */
function trackRanges(tracks) {
  const numbers = tracks.map((track) => Object.values(track.values).flat().filter((value) => value !== null));
  const shared = largest(numbers.filter((_, index) => !tracks[index].stretched).flat());
  return tracks.map((track, index) => (track.stretched ? [Math.min(...numbers[index]), largest(numbers[index])] : [0, shared]));
}

/** A number of a track, with as many decimals as every other. */
function formatTrack(value) {
  return value === null ? "undefined" : value.toFixed(3);
}

/** What steps have changed together, one after another, at the selected layer: "Layer 5 since Atb: +FF 0.097 → +RES 0.061". */
function wayOfChanges(scene) {
  const { data, selection } = scene;
  const index = data.layers.indexOf(selection.layer);
  return tracksOf(scene).filter((track) => track.cumulative).map((track) => {
    const way = track.columns.map(({ label, channel }) => `${label}\u00a0${formatTrack(track.values[channel][index])}`);
    return `Layer ${selection.layer} ${track.title}: ${way.join(" → ")}`;
  }).join(" ");
}
