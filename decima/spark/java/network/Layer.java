package decima.network;

/** One linear layer of a network; its weights by input, so that a row is added at a time. */
final class Layer {
  /** (inputs, outputs) */
  final float[][] weight;
  /** (outputs,) */
  final float[] bias;

  Layer(float[][] weight, float[] bias) {
    this.weight = weight;
    this.bias = bias;
  }

  int inputs() {
    return weight.length;
  }

  int outputs() {
    return bias.length;
  }

  /** Write the layer's outputs for the inputs that come first in `values`. */
  void apply(float[] values, float[] target) {
    System.arraycopy(bias, 0, target, 0, bias.length);
    add(values, 0, inputs(), target);
  }

  /** Write the outputs for [embedding, x]. */
  void apply(float[] embedding, float[] x, float[] target) {
    System.arraycopy(bias, 0, target, 0, bias.length);
    add(embedding, 0, embedding.length, target);
    add(x, embedding.length, inputs() - embedding.length, target);
  }

  /**
   * Add values @ W to `target`, W the rows `first` to `first` + `count` of the weights.
   *
   * <p>Four inputs at a time, in the order of decima/agent/forward_kernels.py: both sides round
   * alike. Whole rows as arrays: with one flat array the compiler finds no vector instructions.
   */
  private void add(float[] values, int first, int count, float[] target) {
    int size = bias.length;
    int row = 0;
    for (; row + 4 <= count; row += 4) {
      float one = values[row];
      float two = values[row + 1];
      float three = values[row + 2];
      float four = values[row + 3];
      float[] ofOne = weight[first + row];
      float[] ofTwo = weight[first + row + 1];
      float[] ofThree = weight[first + row + 2];
      float[] ofFour = weight[first + row + 3];
      for (int column = 0; column < size; column++) {
        target[column] +=
            one * ofOne[column] + two * ofTwo[column] + three * ofThree[column]
                + four * ofFour[column];
      }
    }
    for (; row < count; row++) {
      float factor = values[row];
      float[] weights = weight[first + row];
      for (int column = 0; column < size; column++) {
        target[column] += factor * weights[column];
      }
    }
  }
}
