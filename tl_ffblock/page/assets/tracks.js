/* The overview's numbers: how much each step changed a layer's map. No DOM. */

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
