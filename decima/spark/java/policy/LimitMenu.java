package decima.policy;

import decima.network.Network;

/**
 * The parallelism limits that a job may be given, with columns LIMIT of decima/agent/columns.py: the
 * slots added are 1 to 8, then in steps of a quarter octave; those that bring the job to its fair share,
 * half or twice of it; those that a single open stage can use; and as many as the job can use.
 */
final class LimitMenu {
  private static final int EVERY = 8;

  private final Columns of;
  private int job;
  private int slots;
  private int jobs;
  private int wanted;
  private int room;
  private int added;
  /** columns of the limit that `next` came to */
  final float[] x = new float[Network.columns("LIMIT").size()];

  LimitMenu(Columns of) {
    this.of = of;
  }

  /** Begin with the limits of a job that has a stage to be chosen. */
  void begin(int job, Tables tables) {
    this.job = job;
    slots = tables.slots;
    jobs = tables.jobs();
    wanted = 0;
    for (int entry = of.firstOpen[job]; entry < of.firstOpen[job + 1]; entry++) {
      wanted += of.demand[entry];
    }
    wanted = Math.min(wanted, of.most[job]);
    room = Math.min(Math.min(wanted, of.onOffer), slots - of.held[job]);
    added = 0;
  }

  /** Go on to the next limit and write its columns; false if there is none. */
  boolean next() {
    if (added >= room) {
      return false;
    }
    added = sooner(following(), wanted);
    double size = slots;
    double count = added;
    x[0] = (float) (limit() / size);
    x[1] = (float) Columns.log2((double) (limit() * jobs) / size);
    x[2] = (float) (count / size);
    x[3] = (float) Columns.log2(count);
    x[4] = (float) (Math.max(0.0, added - of.local[job]) / count);
    x[5] = (float) Math.min(1.0, count / wanted);
    x[6] = (float) Columns.log2(wanted / count);
    x[7] = (float) ((double) (of.onOffer - added) / of.onOffer);
    x[8] = (float) ((of.onOffer - added) / size);
    return true;
  }

  /** The limit that `next` came to. */
  int limit() {
    return of.held[job] + added;
  }

  /** The next larger number of slots among those that a limit may add. */
  private int following() {
    int step = 1;
    while (EVERY * 2 * step <= added) {
      step *= 2;
    }
    int quarter = added < EVERY ? 1 : Math.max(1, EVERY * step / 4);
    int next = Math.min(room, added + quarter);
    int share = (int) Math.ceil((double) slots / jobs);
    int held = of.held[job];
    next = sooner(next, (share + 1) / 2 - held);
    next = sooner(next, share - held);
    next = sooner(next, 2 * share - held);
    for (int entry = of.firstOpen[job]; entry < of.firstOpen[job + 1]; entry++) {
      next = sooner(next, of.demand[entry]);
    }
    return next;
  }

  /** The candidate, if it lies between what is added now and `following`. */
  private int sooner(int following, int candidate) {
    return added < candidate && candidate < following ? candidate : following;
  }
}
