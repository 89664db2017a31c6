// Tasks to pixels. A row of pixels is worked out once for each executor and copied to its height; a
// pixel takes the task that runs at its left edge, or the first that starts inside it. So a frame
// costs at most a binary search a pixel, however many tasks there are.

// The first index in [low, high) whose value is above `limit`.
function above(values, limit, low, high) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Index of the task in a row that covers the pixel from `from` to `to` ms; -1 if there is none.
function taskAt(tasks, row, from, to) {
  const begin = tasks.first[row], end = tasks.first[row + 1];
  const next = above(tasks.start, from, begin, end);
  if (next > begin && tasks.finish[next - 1] > from) return next - 1;
  return next < end && tasks.start[next] < to ? next : -1;
}

function paint(image, tasks, view, rowHeight, colourOf, gap) {
  const { width, height } = image, out = new Uint32Array(image.data.buffer);
  out.fill(0);
  const perPixel = (view.to - view.from) / width, rows = tasks.first.length - 1;
  for (let row = 0; row < rows; row++) {
    const top = row * rowHeight * width;
    const begin = tasks.first[row], end = tasks.first[row + 1];
    let x = 0, i = above(tasks.start, view.from, begin, end);
    if (i > begin && tasks.finish[i - 1] > view.from) i--;
    while (x < width && i < end) {
      const from = view.from + x * perPixel;
      if (tasks.finish[i] <= from) {
        // Far behind: jump, do not walk, over what lies under one pixel.
        i = above(tasks.start, from, i + 1, end);
        if (tasks.finish[i - 1] > from) i--;
        if (i >= end) break;
      }
      if (tasks.start[i] >= view.to) break;
      const left = Math.max(x, Math.floor((tasks.start[i] - view.from) / perPixel));
      const right = Math.min(width, Math.max(left + 1, Math.ceil((tasks.finish[i] - view.from) / perPixel)));
      out.fill(colourOf(tasks.stage[i]), top + left, top + right);
      // A line between tasks, where they are wide enough to be told apart.
      if (right - left > 3 && right < width) out[top + right - 1] = 0;
      x = right;
      i++;
    }
    const last = rowHeight - (rowHeight > 3 ? gap : 0);
    for (let line = 1; line < last; line++) {
      const at = top + line * width;
      if (at + width <= out.length) out.copyWithin(at, top, top + width);
    }
  }
}
