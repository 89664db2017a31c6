package decima.policy;

import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Makes plans for a live session by a policy: a job that has waited too long is served first, and
 * where the policy fails, or its plans keep slots idle, strict fair decides.
 */
public final class Planner {
  private final Policy policy;
  private final double starveMs;
  private final IdleWatch idleWatch;
  private final Policy standIn = new StrictFair();
  private final LiveGraphs graphs = new LiveGraphs();
  private Map<String, Long> waitsSinceMs = new HashMap<>();

  /** rounds that strict fair decided, because the policy failed */
  public volatile long failures = 0;
  /** likewise, since one last left no slot idle beside a task that waits */
  public volatile int failuresInARow = 0;
  /** jobs that were served because they had waited too long */
  public volatile long starved = 0;

  /**
   * @param starveMs a job with a task to start that has held no slot for so long is served first.
   * @param idleMs so long slots may stand idle, more than under strict fair, beside tasks that plans
   *     keep from starting.
   */
  public Planner(Policy policy, double starveMs, double idleMs) {
    this.policy = policy;
    this.starveMs = starveMs;
    this.idleWatch = new IdleWatch(idleMs);
  }

  /** What decides, unless it fails. */
  public Policy policy() {
    return policy;
  }

  /** What to do now; null if nothing waits. The arguments are those of a `Report`. */
  public Plan plan(LiveJobs live, long idleMs, int idleSlots) {
    String fault = null;
    if (idleWatch.isFault(live, graphs, idleMs, idleSlots)) {
      fault = idleSlots + " slots idle for " + idleMs / 1000.0 + " s beside tasks that wait";
    }
    LiveTables found = LiveTables.of(live, graphs);
    if (found == null) {
      return null;
    }
    List<Integer> considered = found.waitingStages();
    if (considered.isEmpty()) {
      return null;
    }
    Round round = new Round(found.tables, found.caps);
    serveStarved(round, found, live.timeMs);
    boolean isAsked = round.isOpen();
    Policy decides = fault == null ? policy : standIn;
    try {
      decide(decides, round);
    } catch (RuntimeException error) {
      fault = error.toString();
      decides = standIn;
      decide(decides, round);
    }
    if (fault != null) {
      failures += 1;
      failuresInARow += 1;
    } else if (isAsked && idleMs == 0 && !(round.unused() > 0 && round.tasksLeft() > 0)) {
      // One that only passes is no proof of health, nor is one that caps or busy slots had closed.
      failuresInARow = 0;
    }
    return new Plan(
        found.sparkStages(round.chosen()),
        found.limits(round),
        considered,
        decides.name(),
        fault);
  }

  static void decide(Policy policy, Round round) {
    while (round.isOpen()) {
      round.assign(policy.decide(round));
    }
  }

  /** Give a slot to jobs that have waited beyond the bound, before the policy decides. */
  private void serveStarved(Round round, LiveTables live, long nowMs) {
    Map<String, Long> since = new HashMap<>();
    for (int job = 0; job < live.jobs.size(); job++) {
      LiveJob own = live.jobs.get(job);
      if (own.running == 0 && round.openStages[job] > 0) {
        // From the plan at which it was first seen to wait: there may have been none while it ran.
        since.put(own.key, waitsSinceMs.getOrDefault(own.key, nowMs));
      }
    }
    waitsSinceMs = since;
    for (int job = 0; job < live.jobs.size() && round.isOpen(); job++) {
      long sinceMs = since.getOrDefault(live.jobs.get(job).key, nowMs);
      int stage = nowMs - sinceMs > starveMs ? firstOpen(round, job) : -1;
      if (stage >= 0) {
        round.assign(new Action(stage, round.held(job) + 1));
        starved += 1;
      }
    }
  }

  private static int firstOpen(Round round, int job) {
    for (int stage = round.tables.firstStage[job];
        stage < round.tables.firstStage[job + 1];
        stage++) {
      if (round.isOpen(stage)) {
        return stage;
      }
    }
    return -1;
  }
}
