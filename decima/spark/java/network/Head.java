package decima.network;

/**
 * One score for rows of several tables (gnn/heads.py). The first layer is applied to each table alone
 * and its outputs are added up: a job's part serves all its stages.
 */
public final class Head {
  private final Layer[] parts;
  private final Layer[] body;
  /** rows between layers */
  private final float[][] hidden;
  /** weights of the only output */
  private final float[] last;
  private final float lastBias;

  Head(Layer[] parts, Layer[] body, Layer last) {
    this.parts = parts;
    this.body = body;
    hidden = Transform.rows(body);
    this.last = new float[last.inputs()];
    for (int input = 0; input < this.last.length; input++) {
      this.last[input] = last.weight[input][0];
    }
    lastBias = last.bias[0];
  }

  /** Size of a part. */
  public int hidden() {
    return parts[0].outputs();
  }

  /** Write the part of one table's row to `target`. */
  public void part(int table, float[] x, float[] target) {
    parts[table].apply(x, target);
  }

  /** Write the part of [embedding, x] to `target`. */
  public void part(int table, float[] embedding, float[] x, float[] target) {
    parts[table].apply(embedding, x, target);
  }

  /** The score for the sum of all parts, a row of size `hidden`, which is overwritten. */
  public float score(float[] parts) {
    float[] values = parts;
    for (int number = 0; number < body.length; number++) {
      Transform.bend(values);
      body[number].apply(values, hidden[number]);
      values = hidden[number];
    }
    Transform.bend(values);
    float total = lastBias;
    int row = 0;
    for (; row + 4 <= last.length; row += 4) {
      total +=
          values[row] * last[row] + values[row + 1] * last[row + 1]
              + values[row + 2] * last[row + 2] + values[row + 3] * last[row + 3];
    }
    for (; row < last.length; row++) {
      total += values[row] * last[row];
    }
    return total;
  }
}
