package decima.network;

import decima.spark.Json;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * The weights of a policy (`PolicyNetwork` in decima/agent/network.py), for sessions: all slots are
 * alike. For one thread: its layers keep rows. Letters as in gnn/encoder.py.
 */
public final class Network {
  /** parts of the heads for stages and limits: the finest table, jobs, the cluster */
  public static final int OWN = 0;
  public static final int OF_JOB = 1;
  public static final int OF_CLUSTER = 2;

  public final int embedding;
  /** false: a job gets all it can use */
  public final boolean hasLimitHead;
  public final Head stageHead;
  public final Head limitHead;
  /** of leaving idle what is left; its only table is the cluster's */
  public final Head endHead;
  /** x_v to e_v, before messages */
  final Layer lift;
  /** f and g of the sums over children, stages of a job, and jobs */
  final Transform fNode;
  final Transform gNode;
  final Transform fJob;
  final Transform gJob;
  final Transform fCluster;
  final Transform gCluster;
  final boolean sendsMessages;
  private final boolean hasEmbeddings;

  /**
   * One score for rows of several tables (gnn/heads.py). The first layer is applied to each table alone
   * and its outputs are added up: a job's part serves all its stages.
   */
  public static final class Head {
    private final Layer[] parts;
    private final Transform rest;
    private final float[] score = new float[1];

    Head(Layer[] parts, Transform rest) {
      this.parts = parts;
      this.rest = rest;
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
    public float score(float[] sum) {
      Transform.bend(sum);
      rest.apply(sum, score);
      return score[0];
    }
  }

  private Network(ModelFile file) {
    ModelFile.Shape shape = file.shape;
    embedding = shape.embedding;
    hasLimitHead = shape.limitHead;
    sendsMessages = shape.messages;
    hasEmbeddings = shape.embeddings;
    lift = file.linear("encoder.lift");
    fNode = file.transform("encoder.node_sum.f");
    gNode = file.transform("encoder.node_sum.g");
    fJob = file.transform("encoder.job_sum.f");
    gJob = file.transform("encoder.job_sum.g");
    fCluster = file.transform("encoder.cluster_sum.f");
    gCluster = file.transform("encoder.cluster_sum.g");
    Layer[] ofStage = file.parts("stage_head");
    if (!shape.pathColumns) {
      for (String name : columns("PATH")) {
        Arrays.fill(ofStage[OWN].weight[embedding + columns("STAGE").indexOf(name)], 0.0f);
      }
    }
    Layer[] ofLimit = file.parts("limit_head");
    Layer[] ofEnd = file.parts("end_head");
    blind(ofStage[OWN], ofStage[OF_JOB], ofStage[OF_CLUSTER], ofLimit[OF_JOB], ofLimit[OF_CLUSTER],
        ofEnd[0]);
    stageHead = file.head("stage_head", ofStage);
    limitHead = file.head("limit_head", ofLimit);
    endHead = file.head("end_head", ofEnd);
  }

  /** Names of the columns of a table of decima/agent/columns.py. */
  public static List<String> columns(String table) {
    return Json.<Map<String, List<String>>>shared("columns").get(table);
  }

  /** Parts that an ablation leaves out get weights of zero. */
  private void blind(Layer... layers) {
    for (Layer layer : layers) {
      for (int input = 0; input < embedding && !hasEmbeddings; input++) {
        Arrays.fill(layer.weight[input], 0.0f);
      }
    }
  }

  /**
   * The network in a model file.
   *
   * @param where the name of the file, for messages.
   * @throws IllegalArgumentException (one line) it is no model that this version can use.
   */
  public static Network read(byte[] data, String where) {
    try {
      return new Network(new ModelFile(data));
    } catch (IllegalArgumentException fault) {
      throw new IllegalArgumentException(where + ": " + fault.getMessage(), fault);
    }
  }
}
