package decima.spark;

import decima.policy.LiveJob;
import decima.policy.LiveJobs;
import decima.policy.Planner;
import decima.policy.Policies;
import decima.policy.Policy;
import decima.policy.WarmUp;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/**
 * Puts the choice of policy "auto" in force: Spark's own order, or one of several policies. Python
 * chooses (decima/spark/auto.py), by simulations of the jobs that are reported here.
 */
final class Judge {
  private static final long LOOK_NS = 200_000_000L;
  /** a look may take so many times `lapse`: a candidate may be loaded meanwhile */
  private static final int LAPSES = 15;
  /** so many of the newest jobs are reported */
  private static final int MOST_JOBS = Json.<Integer>shared("auto_most_jobs");

  private final Control control;
  private final Planner planner;
  private final Worker worker;
  /** a policy that is not inside the JVM, by name */
  private final Function<String, Policy> outside;
  /** jobs that are over, and not reported yet */
  private final List<Map<String, ?>> over = new ArrayList<>();
  private CompletableFuture<Map<?, ?>> answer;
  private long askedNs = 0;
  private boolean wantsKnown = false;
  /** why the policy in force cannot decide, until that is reported */
  private String givenUp = null;
  /** name of the planner's policy; null: none */
  private String policy = null;
  private Boolean isLeft = null;

  // the choice, for status pages
  volatile String chosen;
  volatile boolean isShadow = false;
  volatile boolean isSparkOrder = true;
  volatile String why = "nothing is known of this session yet";

  Judge(Control control, Planner planner, Worker worker, Function<String, Policy> outside) {
    this.control = control;
    this.planner = planner;
    this.worker = worker;
    this.outside = outside;
    chosen = control.order();
  }

  /** The choice, for status pages. */
  Map<String, Object> choice() {
    Map<String, Object> row = new LinkedHashMap<>();
    row.put("policy", chosen);
    row.put("is_shadow", isShadow);
    row.put("why", why);
    return row;
  }

  /** Whether order is left to Spark in spite of plans. */
  boolean isLeft() {
    return Boolean.TRUE.equals(isLeft);
  }

  /** Take in the newest report; whether plans are to be made of it. */
  boolean look(LiveJobs live) {
    for (LiveJob job : live.forgotten) {
      over.add(job.row());
    }
    over.subList(0, Math.max(0, over.size() - MOST_JOBS)).clear();
    WorkerLink link = worker.link();
    if (link == null) {
      answer = null;
    } else if (answer != null && answer.isDone()) {
      take(answer);
      answer = null;
    } else if (answer != null) {
      worker.giveUpIfSilent(askedNs, LAPSES);
    } else if (System.nanoTime() - askedNs > LOOK_NS) {
      askedNs = System.nanoTime();
      answer = link.ask("look", news(live));
      over.clear();
      givenUp = null;
    }
    boolean isWanted = link != null && policy != null && (isShadow || !isSparkOrder);
    leave(isSparkOrder || isShadow || !isWanted);
    return isWanted;
  }

  private Map<String, ?> news(LiveJobs live) {
    Map<String, Object> message = new LinkedHashMap<>();
    List<Map<String, ?>> known = new ArrayList<>();
    int ended = 0;
    for (LiveJob job : live.known()) {
      ended += job.isActive() ? 0 : 1;
      if (wantsKnown) {
        known.add(job.row());
      }
    }
    message.put("time_ms", live.timeMs);
    message.put("slots", live.slots);
    message.put("over", new ArrayList<>(over));
    message.put("known", wantsKnown ? known : null);
    message.put("ended", ended);
    message.put("prior_hits", live.priorHits());
    message.put("prior_misses", live.priorMisses());
    message.put("is_left", isLeft == null || isLeft);
    message.put("given_up", givenUp);
    return message;
  }

  private void take(CompletableFuture<Map<?, ?>> reply) {
    if (reply.isCompletedExceptionally()) {
      return; // Python is gone
    }
    Map<?, ?> message = reply.getNow(Collections.emptyMap());
    if (!(message.get("choice") instanceof Map)) {
      return;
    }
    wantsKnown = Boolean.TRUE.equals(message.get("wants_known"));
    Map<?, ?> choice = (Map<?, ?>) message.get("choice");
    chosen = String.valueOf(choice.get("policy"));
    isShadow = Boolean.TRUE.equals(choice.get("is_shadow"));
    isSparkOrder = Boolean.TRUE.equals(choice.get("is_spark_order"));
    why = String.valueOf(choice.get("why"));
    if (!isSparkOrder && !isShadow && !chosen.equals(policy)) {
      try {
        switchTo(chosen, (Map<?, ?>) choice.get("parameters"));
      } catch (IllegalArgumentException error) { // its file has gone since
        giveUp(error.getMessage());
      }
    }
  }

  private void switchTo(String name, Map<?, ?> parameters) {
    if (Policies.isInside(name)) {
      planner.switchTo(Policies.named(name, parameters));
      WarmUp.inBackground(Policies.named(name, parameters));
    } else {
      planner.switchTo(outside.apply(name));
    }
    policy = name;
  }

  /** Leave order to Spark until the next verdict, which may choose the same policy again. */
  void giveUp(String reason) {
    givenUp = reason;
    answer = null; // it does not know of this yet
    isSparkOrder = true;
    isShadow = false;
    why = chosen + ": " + reason;
    chosen = control.order();
    policy = null;
    planner.switchTo(null);
    leave(true);
  }

  private void leave(boolean now) {
    if (isLeft == null || now != isLeft) {
      control.leaveToSpark(now);
      isLeft = now;
    }
  }
}
