package decima.network;

import java.util.List;

/** A multilayer perceptron: LeakyReLU between its layers; without layers the identity. */
final class Transform {
  /** slope below zero, `NEGATIVE_SLOPE` of gnn/encoder.py */
  private static final double SLOPE = 0.2;

  private final Layer[] layers;

  Transform(List<Layer> layers) {
    this.layers = layers.toArray(new Layer[0]);
  }

  /** The widest row between its layers. */
  int widest() {
    int found = 0;
    for (Layer layer : layers) {
      found = Math.max(found, layer.outputs());
    }
    return found;
  }

  /** Write the outputs for one row of inputs; `at` holds what is in between. */
  void apply(float[] values, float[] target, Scratch at) {
    if (layers.length == 0) {
      System.arraycopy(values, 0, target, 0, target.length);
      return;
    }
    float[] source = values;
    for (int number = 0; number < layers.length - 1; number++) {
      float[] into = number % 2 == 0 ? at.one : at.other;
      layers[number].apply(source, into);
      bend(into, layers[number].outputs());
      source = into;
    }
    layers[layers.length - 1].apply(source, target);
  }

  /**
   * LeakyReLU in place, which rounds as the compiled Python code does; without branches, which would
   * often be guessed wrongly.
   */
  static void bend(float[] values, int size) {
    for (int column = 0; column < size; column++) {
      values[column] = Math.max(values[column], (float) (SLOPE * values[column]));
    }
  }
}
