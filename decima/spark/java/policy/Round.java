package decima.policy;

import java.util.Arrays;

/**
 * One plan in the making, by the rules of the simulator's session (spark_sim/kernels/session.py): all
 * slots are on offer except those busy with the last tasks of a stage; each action puts a stage next
 * in the plan and sets the limit of its job.
 */
public final class Round {
  public final Tables tables;
  /** (J,) slots that the job holds or has been given */
  final int[] held;
  /** (J,) slots on offer that the job's tasks are on now */
  final int[] local;
  /** (J,) stages that may be chosen */
  final int[] openStages;
  /** (J,) of the newest action; 0: none */
  final int[] limit;
  /** (S,) tasks that need no slot any more */
  final int[] covered;
  final boolean[] open;
  int onOffer;
  private int openCount;
  private boolean isOpen;
  private final int[] chosen;
  private int numChosen;
  /** of each cap: slots that it leaves; a cap without any closes its jobs' stages */
  private final int[] roomUnder;

  public Round(Tables tables) {
    this.tables = tables;
    roomUnder = tables.capacity.clone();
    held = new int[tables.jobs()];
    local = new int[tables.jobs()];
    openStages = new int[tables.jobs()];
    limit = new int[tables.jobs()];
    covered = new int[tables.stages()];
    open = new boolean[tables.stages()];
    chosen = new int[tables.stages()];
    onOffer = tables.slots;
    for (int job = 0; job < tables.jobs(); job++) {
      offer(job);
    }
    closeExhaustedCaps();
    reopen();
  }

  private void offer(int job) {
    for (int stage = tables.firstStage[job]; stage < tables.firstStage[job + 1]; stage++) {
      int running = tables.launched[stage] - tables.finished[stage];
      // Tasks that run now are covered anew: their slots are on offer too.
      covered[stage] = tables.finished[stage];
      if (tables.launched[stage] == tables.numTasks[stage]) {
        covered[stage] = tables.numTasks[stage];
        held[job] += running;
      } else if (tables.runnable[stage]) {
        open[stage] = true;
        openStages[job] += 1;
        local[job] += running;
      }
    }
    onOffer -= held[job];
    openCount += openStages[job];
    take(roomUnder, job, held[job]);
  }

  public boolean isOpen() {
    return isOpen;
  }

  /** Whether users' caps bound what jobs of this round may get. */
  boolean hasCaps() {
    return roomUnder.length > 0;
  }

  /** Go on after `PASS`, if there is something left to give. */
  void reopen() {
    isOpen = onOffer > 0 && openCount > 0;
  }

  /** Whether `assign` would take the action. */
  boolean allows(Policy.Action action) {
    return isOpen
        && action.stage >= 0
        && action.stage < open.length
        && open[action.stage]
        && action.limit > held[tables.job[action.stage]]
        && action.limit <= tables.slots;
  }

  /** Whether the stage may be chosen. */
  public boolean isOpen(int stage) {
    return open[stage];
  }

  /** Slots that caps leave a job. */
  int room(int job) {
    return room(roomUnder, job);
  }

  private int room(int[] under, int job) {
    int least = Integer.MAX_VALUE;
    for (int cap : tables.caps[job]) {
      least = Math.min(least, under[cap]);
    }
    return least;
  }

  private void take(int[] under, int job, int slots) {
    for (int cap : tables.caps[job]) {
      under[cap] -= slots;
    }
  }

  /** Tasks of the stage that no slot is for, as far as caps let its job have any. */
  int demand(int stage) {
    int tasks = tables.numTasks[stage] - covered[stage];
    return Math.min(tasks, room(tables.job[stage]));
  }

  /**
   * Put the action's stage next in the plan and set its job's limit; `PASS` ends the round.
   *
   * @throws IllegalArgumentException the stage is not open, or the limit not above what its job
   *     holds or beyond all slots; nothing has changed then.
   */
  public void assign(Policy.Action action) {
    int stage = action.stage;
    if (stage == Policy.Action.PASS.stage) {
      isOpen = false;
      return;
    }
    if (stage < 0 || stage >= open.length || !open[stage]) {
      throw new IllegalArgumentException("stage " + stage + " is not open");
    }
    int job = tables.job[stage];
    if (action.limit <= held[job] || action.limit > tables.slots) {
      throw new IllegalArgumentException(
          "limit " + action.limit + ": it must be above the " + held[job]
              + " slots that the job holds, and at most " + tables.slots);
    }
    limit[job] = action.limit;
    int count = Math.min(Math.min(demand(stage), action.limit - held[job]), onOffer);
    onOffer -= count;
    held[job] += count;
    local[job] -= Math.min(count, local[job]);
    covered[stage] += count;
    take(roomUnder, job, count);
    close(stage);
    closeExhaustedCaps();
    chosen[numChosen++] = stage;
    reopen();
  }

  private void close(int stage) {
    open[stage] = false;
    openStages[tables.job[stage]] -= 1;
    openCount -= 1;
  }

  private void closeExhaustedCaps() {
    for (int job = 0; job < openStages.length; job++) {
      if (openStages[job] == 0 || room(job) > 0) {
        continue;
      }
      for (int stage = tables.firstStage[job]; stage < tables.firstStage[job + 1]; stage++) {
        if (open[stage]) {
          close(stage);
        }
      }
    }
  }

  /** Rows of the stages in the plan, first come first served. */
  public int[] chosen() {
    return Arrays.copyOf(chosen, numChosen);
  }

  /** Tasks that could start, under caps too, and that the plan so far gives no slot. */
  int tasksLeft() {
    int[] under = roomUnder.clone();
    int tasks = 0;
    for (int job = 0; job < openStages.length; job++) {
      int waiting = 0;
      for (int stage = tables.firstStage[job]; stage < tables.firstStage[job + 1]; stage++) {
        if (tables.runnable[stage]) {
          waiting += Math.max(0, tables.numTasks[stage] - covered[stage]);
        }
      }
      int started = Math.max(0, Math.min(waiting, room(under, job)));
      take(under, job, started);
      tasks += started;
    }
    return tasks;
  }

  /** Slots that no job holds or is given by the plan so far. */
  int unused() {
    int unused = tables.slots;
    for (int job = 0; job < held.length; job++) {
      unused -= held[job];
    }
    return unused;
  }

  /** The job's first open stage; -1 if none is open. */
  int firstOpen(int job) {
    for (int stage = tables.firstStage[job]; stage < tables.firstStage[job + 1]; stage++) {
      if (open[stage]) {
        return stage;
      }
    }
    return -1;
  }

  /** The job's open stage with the longest critical path; -1 if none is open. */
  int onCriticalPath(int job) {
    int best = -1;
    if (openStages[job] == 0) {
      return best;
    }
    for (int stage = tables.firstStage[job]; stage < tables.firstStage[job + 1]; stage++) {
      if (open[stage]
          && (best < 0 || tables.criticalPathMs[stage] > tables.criticalPathMs[best])) {
        best = stage;
      }
    }
    return best;
  }
}
