package decima.network;

import java.util.Arrays;

/**
 * Features and embeddings of all stages and jobs of a session, kept from one decision to the next:
 * only jobs that have changed are embedded anew.
 */
public final class Embeddings {
  private static final int NODE = Network.columns("NODE").size();

  private final Network network;
  private int[] firstStage = {0};
  private int[] firstChild = {0};
  private int[] children = {};
  /** (S,) the stages of each job, children before their parents; rows of all stages */
  private int[] order = {};
  /** (S, F) node features: to be filled by the caller, who then names the jobs that changed */
  public float[][] x = {};
  /** (S, D) */
  public float[][] e = {};
  /** (J, D) */
  public float[][] y = {};
  /** (S, D) f(e_v) */
  private float[][] sent = {};
  /** (J, D) f3(y_i) */
  private float[][] added = {};
  private final float[] total;
  private final float[] hidden;
  private final float[] joined;

  public Embeddings(Network network) {
    this.network = network;
    total = new float[network.embedding];
    hidden = new float[network.embedding];
    joined = new float[NODE + network.embedding];
  }

  /**
   * Forget everything: other jobs, or other graphs.
   *
   * @param firstStage (J + 1,) first row of each job's stages.
   * @param firstChild (S + 1,) first of each stage's `children`, which are rows of stages.
   */
  public void reset(int[] firstStage, int[] firstChild, int[] children) {
    this.firstStage = firstStage;
    this.firstChild = firstChild;
    this.children = children;
    int jobs = firstStage.length - 1;
    int stages = firstStage[jobs];
    x = grown(x, stages, NODE);
    e = grown(e, stages, network.embedding);
    sent = grown(sent, stages, network.embedding);
    y = grown(y, jobs, network.embedding);
    added = grown(added, jobs, network.embedding);
    for (int row = 0; row < stages; row++) {
      Arrays.fill(x[row], Float.NaN);
    }
    order = new int[stages];
    for (int job = 0; job < jobs; job++) {
      sort(firstStage[job], firstStage[job + 1]);
    }
  }

  private static float[][] grown(float[][] rows, int count, int size) {
    if (rows.length >= count) {
      return rows;
    }
    float[][] larger = Arrays.copyOf(rows, Math.max(2 * rows.length, count));
    for (int row = rows.length; row < larger.length; row++) {
      larger[row] = new float[size];
    }
    return larger;
  }

  /** Fill `order` for the rows of one job. */
  private void sort(int first, int last) {
    int[] missing = new int[last - first];
    int[] ready = new int[last - first];
    int place = last; // from the last: each stage comes before its parents
    for (int row = first; row < last; row++) {
      for (int edge = firstChild[row]; edge < firstChild[row + 1]; edge++) {
        missing[children[edge] - first] += 1;
      }
    }
    int waiting = 0;
    for (int row = first; row < last; row++) {
      if (missing[row - first] == 0) {
        ready[waiting++] = row;
      }
    }
    for (int next = 0; next < waiting; next++) {
      int row = ready[next];
      order[--place] = row;
      for (int edge = firstChild[row]; edge < firstChild[row + 1]; edge++) {
        if (--missing[children[edge] - first] == 0) {
          ready[waiting++] = children[edge];
        }
      }
    }
    if (place != first) {
      throw new IllegalArgumentException("a job's stages wait for one another");
    }
  }

  /** Embed a job whose features have changed. */
  public void embed(int job) {
    for (int place = firstStage[job]; place < firstStage[job + 1]; place++) {
      embedStage(order[place]);
    }
    Arrays.fill(total, 0.0f);
    for (int row = firstStage[job]; row < firstStage[job + 1]; row++) {
      System.arraycopy(x[row], 0, joined, 0, NODE);
      System.arraycopy(e[row], 0, joined, NODE, network.embedding);
      network.fJob.apply(joined, hidden);
      add(hidden, total);
    }
    network.gJob.apply(total, y[job]);
    network.fCluster.apply(y[job], added[job]);
  }

  private void embedStage(int row) {
    network.lift.apply(x[row], e[row]);
    if (!network.sendsMessages) {
      return;
    }
    if (firstChild[row] < firstChild[row + 1]) {
      Arrays.fill(total, 0.0f);
      for (int edge = firstChild[row]; edge < firstChild[row + 1]; edge++) {
        add(sent[children[edge]], total);
      }
      network.gNode.apply(total, hidden);
      add(hidden, e[row]);
    }
    network.fNode.apply(e[row], sent[row]);
  }

  /** Write the embedding z of all jobs together. */
  public void cluster(float[] z) {
    int jobs = firstStage.length - 1;
    Arrays.fill(total, 0.0f);
    for (int job = 0; job < jobs; job++) {
      add(added[job], total);
    }
    for (int column = 0; column < total.length; column++) {
      total[column] = (float) ((double) total[column] / Math.max(1, jobs));
    }
    network.gCluster.apply(total, z);
  }

  private static void add(float[] source, float[] target) {
    for (int column = 0; column < target.length; column++) {
      target[column] += source[column];
    }
  }
}
