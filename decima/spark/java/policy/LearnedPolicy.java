package decima.policy;

import decima.network.Embeddings;
import decima.network.Network;

/**
 * A network as a policy (decima/agent/policy.py): one pass plans a round, likeliest stages first, each
 * job under the median of its limits. Its state is that of one session, for one thread.
 */
final class LearnedPolicy implements Policy {
  /** scale of a limit's logit where the ablation leaves no choice */
  private static final float CERTAIN = 1e4f;

  private final String name;
  private final Network network;
  private final Embeddings kept;
  final Columns columns = new Columns();
  private final NodeColumns nodes = new NodeColumns(columns);
  private final LimitMenu menu = new LimitMenu(columns);
  private final Order order = new Order();
  private final float[] z;
  private final float[] hidden;
  private final float[] ofEnd;
  private final float[] ofCluster;
  private final float[] limitOfCluster;
  private final float[] ofJob;
  private Graphs graphs;
  /** the round that is planned */
  private Round round;
  private int next;
  /** entries of the order before the end */
  private int ahead;
  /** (O,) logits of the stages that may be chosen */
  double[] stage = {};
  /** logit of giving nothing more */
  double end;
  /** logits of the limits of one job, and the limits; in the order of the menu */
  float[] limit = new float[64];
  int[] choice = new int[64];
  /** (J,) the median limit; 0: not looked at yet */
  private int[] median = {};

  LearnedPolicy(String name, Network network) {
    this.name = name;
    this.network = network;
    kept = new Embeddings(network);
    z = new float[network.embedding];
    hidden = new float[network.stageHead.hidden()];
    ofEnd = new float[network.endHead.hidden()];
    ofCluster = new float[network.stageHead.hidden()];
    limitOfCluster = new float[network.limitHead.hidden()];
    ofJob = new float[network.stageHead.hidden()];
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Action decide(Round seen) {
    if (seen != round) {
      plan(seen);
    }
    while (next < ahead) {
      int entry = order.index[next++];
      int job = columns.openJob[entry];
      if (seen.open[columns.openStage[entry]] && seen.held[job] < limitOf(job)) {
        return new Action(columns.openStage[entry], limitOf(job));
      }
    }
    return Action.PASS;
  }

  /** Under users' caps, which no training has seen, strict fair gives away what is left over. */
  @Override
  public void fill(Round seen) {
    Policy.super.fill(seen);
    if (seen.hasCaps()) {
      seen.reopen();
      new StrictFair().fill(seen);
    }
  }

  /** Score and order all stages. A job's limits are scored when its first stage is reached. */
  void plan(Round seen) {
    round = seen;
    next = 0;
    embed(seen);
    columns.describe(seen);
    scoreCluster();
    scoreStages();
    orderStages();
    if (median.length < seen.tables.jobs()) {
      median = new int[2 * seen.tables.jobs()];
    }
    java.util.Arrays.fill(median, 0, seen.tables.jobs(), 0);
  }

  private void embed(Round seen) {
    Graphs now = seen.tables.graphs;
    if (now != graphs) {
      graphs = now;
      columns.learnUnits(now);
      kept.reset(now.firstStage, now.firstChild, now.children);
      nodes.forget(seen.tables.stages());
    }
    for (int job = 0; job < seen.tables.jobs(); job++) {
      if (nodes.update(seen, job, kept)) {
        kept.embed(job);
      }
    }
  }

  // --- stages --------------------------------------------------------------------------------

  private void scoreCluster() {
    kept.cluster(z);
    network.stageHead.part(Network.OF_CLUSTER, z, columns.clusterX, ofCluster);
    network.limitHead.part(Network.OF_CLUSTER, z, columns.clusterX, limitOfCluster);
    network.endHead.part(0, z, columns.clusterX, ofEnd);
    end = network.endHead.score(ofEnd);
  }

  private void scoreStages() {
    if (stage.length < columns.numOpen) {
      stage = new double[2 * columns.numOpen];
    }
    Network.Head head = network.stageHead;
    int job = -1;
    for (int entry = 0; entry < columns.numOpen; entry++) {
      if (columns.openJob[entry] != job) {
        job = columns.openJob[entry];
        head.part(Network.OF_JOB, kept.y[job], columns.jobX[job], ofJob);
        add(ofCluster, ofJob);
      }
      head.part(
          Network.OWN, kept.e[columns.openStage[entry]], columns.stageX[entry], hidden);
      add(ofJob, hidden);
      stage[entry] = head.score(hidden);
    }
  }

  /** Those as likely as the end or likelier; nothing behind it is looked at. */
  private void orderStages() {
    order.makeRoom(columns.numOpen);
    ahead = 0;
    for (int entry = 0; entry < columns.numOpen; entry++) {
      if (stage[entry] >= end) {
        order.index[ahead++] = entry;
      }
    }
    order.sort(stage, ahead);
  }

  // --- limits --------------------------------------------------------------------------------

  private int limitOf(int job) {
    if (median[job] == 0) {
      median[job] = choice[medianOf(scoreLimits(job))];
    }
    return median[job];
  }

  /** Fill `limit` and `choice` for a job; how many there are. */
  int scoreLimits(int job) {
    Network.Head head = network.limitHead;
    head.part(Network.OF_JOB, kept.y[job], columns.jobX[job], ofJob);
    add(limitOfCluster, ofJob);
    int count = 0;
    menu.begin(job, round.tables);
    while (menu.next()) {
      if (count == limit.length) {
        limit = java.util.Arrays.copyOf(limit, 2 * count);
        choice = java.util.Arrays.copyOf(choice, 2 * count);
      }
      choice[count] = menu.limit();
      if (network.hasLimitHead) {
        head.part(Network.OWN, menu.x, hidden);
        add(ofJob, hidden);
        limit[count] = head.score(hidden);
      } else {
        limit[count] = CERTAIN * menu.x[0];
      }
      count += 1;
    }
    return count;
  }

  /**
   * The row at the median of the limits' softmax. Limits are ordered, and the likeliest is often the
   * largest while most of the probability lies on lower ones.
   */
  private int medianOf(int count) {
    float highest = limit[0];
    for (int row = 1; row < count; row++) {
      highest = Math.max(highest, limit[row]);
    }
    double total = 0.0;
    for (int row = 0; row < count; row++) {
      total += (float) Math.exp(limit[row] - highest);
    }
    double below = 0.0;
    for (int row = 0; row < count - 1; row++) {
      below += (float) Math.exp(limit[row] - highest);
      if (2.0 * below >= total) {
        return row;
      }
    }
    return count - 1;
  }

  private static void add(float[] source, float[] target) {
    for (int column = 0; column < source.length; column++) {
      target[column] += source[column];
    }
  }
}
