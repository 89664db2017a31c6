package decima.policy;

/** A stable merge sort of indices by what they stand for, which keeps its room for the next time. */
final class Order {
  /** the indices, the highest first; of equal ones the first first */
  int[] index = {};
  private int[] scratch = {};

  /** Hold room for so many indices. */
  void makeRoom(int count) {
    if (index.length < count) {
      index = new int[Math.max(count, 2 * index.length)];
      scratch = new int[index.length];
    }
  }

  /** Bring the first `count` of `index` into order. */
  void sort(double[] height, int count) {
    for (int width = 1; width < count; width *= 2) {
      for (int first = 0; first + width < count; first += 2 * width) {
        int middle = first + width;
        // It passes over what is in order: entries often come nearly sorted.
        if (height[index[middle - 1]] < height[index[middle]]) {
          merge(height, first, middle, Math.min(middle + width, count));
        }
      }
    }
  }

  private void merge(double[] height, int first, int middle, int last) {
    System.arraycopy(index, first, scratch, first, middle - first);
    int left = first;
    int right = middle;
    for (int place = first; left < middle; place++) {
      if (right == last || height[scratch[left]] >= height[index[right]]) {
        index[place] = scratch[left++];
      } else {
        index[place] = index[right++];
      }
    }
  }
}
