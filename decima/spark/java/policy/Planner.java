package decima.policy;

import decima.spark.Plan;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Makes plans for a live session by a policy that may fail: a job that has waited too long is served
 * first, and where the policy fails or its plans keep slots idle, strict fair decides. Pools with
 * settings of their own get their slots first, and the policy decides inside each.
 */
public final class Planner {
  private Policy policy;
  private final Policy absent;
  private final double starveMs;
  private final double idleMs;
  /** when idle slots count as a fault; NaN: none stand idle beyond what strict fair leaves */
  private double faultDueMs = Double.NaN;
  private final Policy standIn = new StrictFair();
  private final Graphs.Cache graphs = new Graphs.Cache();
  /** by group of pools */
  private final Map<String, Graphs.Cache> graphsOf = new HashMap<>();
  private Map<String, Long> waitsSinceMs = new HashMap<>();
  /** of the plan in the making: why strict fair decides; null: it does not */
  private String fault = null;
  /** of the plan in the making: why the policy is absent; null: it is not */
  private String absence = null;
  /** the policy has decided a round: from then on its absence counts */
  private boolean hasDecided = false;
  /** of the same plan: jobs that had waited too long */
  private final Set<String> served = new HashSet<>();

  /** rounds that strict fair decided, because the policy failed */
  public volatile long failures = 0;
  /** rounds that another decided, because the policy was not there any more */
  private volatile long absences = 0;
  /** why another policy decided the newest plan; null: none did */
  public volatile String standInBecause = null;
  /** failures since the policy last left no slot idle beside a task that waits */
  public volatile int failuresInARow = 0;
  /** jobs that were served because they had waited too long */
  public volatile long starved = 0;
  /** the last one of the policy; null: none */
  public volatile String lastFault = null;

  /**
   * @param policy decides, unless it fails; null until `switchTo`.
   * @param starveMs a job with a task to start that has held no slot for so long is served first.
   * @param idleMs so long slots may stand idle, more than under strict fair, beside tasks that plans
   *     keep from starting.
   */
  public Planner(Policy policy, double starveMs, double idleMs) {
    this(policy, new StrictFair(), starveMs, idleMs);
  }

  /** @param absent decides while the policy is absent; other arguments as above. */
  public Planner(Policy policy, Policy absent, double starveMs, double idleMs) {
    this.policy = policy;
    this.absent = absent;
    this.starveMs = starveMs;
    this.idleMs = idleMs;
  }

  public Policy policy() {
    return policy;
  }

  /** Let another policy decide; null: none does, and no plan may be asked for. */
  public void switchTo(Policy other) {
    policy = other;
    failuresInARow = 0;
    hasDecided = false;
    standInBecause = null;
  }

  /** Name of the policy that decides while this one does not. */
  public String standIn() {
    return (lastFault != null && lastFault.equals(standInBecause) ? standIn : absent).name();
  }

  /** Rounds that another policy decided, since this one failed or was not there any more. */
  public long fallbacks() {
    return failures + absences;
  }

  /**
   * The job that the policy would serve first if those that wait for a place were alone; null: it
   * chooses none, or is absent.
   *
   * @throws RuntimeException it fails.
   */
  public String first(LiveJobs live) {
    List<LiveJob> due = PoolGroup.due(live, live.candidates());
    int slots = LiveTables.slots(live);
    if (policy == null || due.isEmpty() || slots < 1) {
      return null;
    }
    LiveTables tables = LiveTables.of(live, due, slots, new Graphs.Cache());
    Round round = new Round(tables);
    try {
      int stage = round.isOpen() ? policy.first(round) : Policy.Action.PASS.stage;
      return stage < 0 ? null : due.get(tables.job[stage]).key;
    } catch (Policy.Absent away) {
      return null;
    }
  }

  /** The next plan; null if nothing waits. The arguments are those of a `Report`. */
  public Plan plan(LiveJobs live, long idleForMs, int idleSlots) {
    fault = null;
    absence = null;
    served.clear();
    if (isIdleAFault(live, idleForMs, idleSlots)) {
      fault = idleSlots + " slots idle for " + idleForMs / 1000.0 + " s beside tasks that wait";
    }
    int slots = LiveTables.slots(live);
    List<PoolGroup> groups = PoolGroup.of(live, slots);
    if (groups.isEmpty() || slots < 1) {
      return null;
    }
    Map<String, Long> since = new HashMap<>();
    groups.forEach(group -> decide(live, group, since));
    if (groups.stream().allMatch(group -> group.tables == null)) {
      return null;
    }
    if (groups.size() > 1 && groups.stream().anyMatch(PoolGroup::isIdleBesideTasks)) {
      PoolGroup.shareAgain(groups, slots).forEach(group -> decide(live, group, since));
    }
    waitsSinceMs = since;
    starved += served.size();
    graphsOf.keySet().removeIf(name -> groups.stream().noneMatch(one -> one.name.equals(name)));
    note(groups, slots, idleForMs);
    return joined(groups);
  }

  /**
   * Whether idle slots are a fault of the policy: for `idleMs` more have stood idle than strict fair
   * would leave. Then not again for another such time.
   */
  private boolean isIdleAFault(LiveJobs live, long idleForMs, int idleSlots) {
    if (idleForMs < idleMs / 2 || idleSlots <= idleUnderStrictFair(live)) {
      faultDueMs = Double.NaN;
      return false;
    }
    if (Double.isNaN(faultDueMs)) {
      faultDueMs = live.timeMs + idleMs / 2; // what has just come up, the policy may still use
    }
    if (live.timeMs < faultDueMs) {
      return false;
    }
    faultDueMs = live.timeMs + idleMs;
    return true;
  }

  /** Slots that strict fair would leave idle though a task waits. */
  private int idleUnderStrictFair(LiveJobs live) {
    LiveTables tables = LiveTables.of(live, graphs);
    if (tables == null) {
      return 0;
    }
    Round round = new Round(tables);
    new StrictFair().fill(round);
    return Math.min(round.unused(), round.tasksLeft());
  }

  /** Decide for one group, by the policy or its stand-in, if a task waits there. */
  private void decide(LiveJobs live, PoolGroup group, Map<String, Long> since) {
    Graphs.Cache cache = graphsOf.computeIfAbsent(group.name, name -> new Graphs.Cache());
    LiveTables tables = LiveTables.of(live, group.jobs, group.slots, cache);
    List<Integer> considered = tables.waitingStages();
    if (considered.isEmpty()) {
      return;
    }
    group.tables = tables;
    group.considered = considered;
    Round round = new Round(tables);
    boolean isStarving = noteWaits(round, tables, live.timeMs, since);
    if (group.slots < 1 && !isStarving) {
      return;
    }
    if (group.slots < 1) {
      group.slots = 1;
      group.isFirst = true;
    }
    serveStarved(round, tables, live.timeMs, since);
    group.round = round;
    group.isAsked = round.isOpen();
    Policy decides = fault == null ? policy : standIn;
    try {
      decides.fill(round);
      hasDecided = hasDecided || (group.isAsked && decides == policy);
    } catch (Policy.Absent away) {
      group.isAsked = false;
      absence = away.getMessage();
      decides = absent;
      decides.fill(round);
    } catch (RuntimeException error) {
      fault = error instanceof Policy.Fault ? error.getMessage() : error.toString();
      decides = standIn;
      decides.fill(round);
    }
    group.by = decides.name();
  }

  /** Count a failure, or take the policy for sound. */
  private void note(List<PoolGroup> groups, int slots, long idleForMs) {
    standInBecause = fault == null ? absence : fault;
    if (fault == null && absence != null && hasDecided) {
      absences += 1;
    }
    if (fault != null) {
      failures += 1;
      failuresInARow += 1;
      lastFault = fault;
      return;
    }
    int unused = slots - groups.stream().mapToInt(PoolGroup::used).sum();
    boolean isAsked = groups.stream().anyMatch(group -> group.isAsked);
    boolean isIdle = groups.stream().anyMatch(PoolGroup::isIdleBesideTasks);
    if (isAsked && idleForMs == 0 && !(unused > 0 && isIdle)) {
      // A policy that only passes is no proof of health, nor is a round closed by caps or busy slots.
      failuresInARow = 0;
    }
  }

  private Plan joined(List<PoolGroup> groups) {
    List<Integer> chosen = new ArrayList<>();
    List<Integer> considered = new ArrayList<>();
    Map<String, Integer> limits = new LinkedHashMap<>();
    Map<String, Integer> pools = new LinkedHashMap<>();
    String by = policy == null ? absent.name() : policy.name();
    for (PoolGroup group : groups) {
      considered.addAll(group.considered);
      if (group.round != null) {
        List<Integer> stages = group.tables.sparkStages(group.round.chosen());
        chosen.addAll(group.isFirst ? 0 : chosen.size(), stages);
        limits.putAll(group.tables.limits(group.round));
        by = group.by;
      }
      if (groups.size() > 1 && group.tables != null) {
        pools.put(group.name, group.slots + group.tables.lost());
      }
    }
    return new Plan(chosen, limits, pools, considered, by, fault);
  }

  /** Note since when jobs have waited; whether one has for longer than the bound. */
  private boolean noteWaits(Round round, LiveTables live, long nowMs, Map<String, Long> since) {
    boolean isStarving = false;
    for (int job = 0; job < live.jobs.size(); job++) {
      LiveJob waiting = live.jobs.get(job);
      if (waiting.running == 0 && round.openStages[job] > 0) {
        // From the plan at which it was first seen to wait: there may have been none while it ran.
        long sinceMs = waitsSinceMs.getOrDefault(waiting.key, nowMs);
        since.put(waiting.key, sinceMs);
        isStarving = isStarving || nowMs - sinceMs > starveMs;
      }
    }
    return isStarving;
  }

  /** Give a slot to jobs that have waited beyond the bound, before the policy decides. */
  private void serveStarved(
      Round round, LiveTables live, long nowMs, Map<String, Long> since) {
    for (int job = 0; job < live.jobs.size() && round.isOpen(); job++) {
      long sinceMs = since.getOrDefault(live.jobs.get(job).key, nowMs);
      int stage = nowMs - sinceMs > starveMs ? round.firstOpen(job) : -1;
      if (stage >= 0) {
        round.assign(new Policy.Action(stage, round.held[job] + 1));
        served.add(live.jobs.get(job).key);
      }
    }
  }
}
