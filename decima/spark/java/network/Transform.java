package decima.network;

import java.util.List;

/** A multilayer perceptron: LeakyReLU between its layers; without layers the identity. */
final class Transform {
  /** slope below zero, `NEGATIVE_SLOPE` of gnn/encoder.py */
  private static final double SLOPE = 0.2;

  private final Layer[] layers;
  /** rows between layers */
  private final float[][] hidden;

  Transform(List<Layer> layers) {
    this.layers = layers.toArray(new Layer[0]);
    hidden = layers.stream().map(layer -> new float[layer.outputs()]).toArray(float[][]::new);
  }

  /** Write the outputs for one row of inputs. */
  void apply(float[] values, float[] target) {
    if (layers.length == 0) {
      System.arraycopy(values, 0, target, 0, target.length);
      return;
    }
    float[] source = values;
    for (int number = 0; number < layers.length - 1; number++) {
      layers[number].apply(source, hidden[number]);
      bend(hidden[number]);
      source = hidden[number];
    }
    layers[layers.length - 1].apply(source, target);
  }

  /**
   * LeakyReLU in place, which rounds as the compiled Python code does; without branches, which would
   * often be guessed wrongly.
   */
  static void bend(float[] values) {
    for (int column = 0; column < values.length; column++) {
      values[column] = Math.max(values[column], (float) (SLOPE * values[column]));
    }
  }
}
