package decima.spark;

import decima.policy.Policy;
import decima.policy.Round;
import decima.policy.RoundMessage;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** A policy in Python: it is asked for whole rounds, and has a bounded time for each. */
final class OutsidePolicy implements Policy {
  private final String name;
  private final Worker worker;
  private final Policy absent;
  private final long timeoutMs;
  /** the answer that did not come in time, and since when it is waited for */
  private CompletableFuture<Map<?, ?>> late = null;
  private long lateSinceNs = 0;
  /** when the next failure of a late policy counts: a stall of Python is one for each time-out */
  private long countsNs = 0;

  /** @param absent decides what caps leave over. */
  OutsidePolicy(String name, Worker worker, Policy absent, long timeoutMs) {
    this.name = name;
    this.worker = worker;
    this.absent = absent;
    this.timeoutMs = timeoutMs;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Action decide(Round seen) {
    throw new UnsupportedOperationException("it plans whole rounds");
  }

  @Override
  public int first(Round seen) {
    fill(seen);
    int[] chosen = seen.chosen();
    return chosen.length == 0 ? Action.PASS.stage : chosen[0];
  }

  @Override
  public void fill(Round round) {
    if (!round.isOpen()) {
      return;
    }
    WorkerLink link = worker.link();
    if (link == null) {
      late = null;
      throw new Absent(worker.awayBecause());
    }
    if (late != null && !late.isDone()) {
      if (worker.giveUpIfSilent(lateSinceNs, 1)) {
        throw new Absent(name + " is silent");
      }
      if (System.nanoTime() - countsNs < 0) {
        throw new Absent(name + " is late");
      }
      countsNs = System.nanoTime() + timeoutMs * 1_000_000L;
      throw new Fault("it is still busy with an earlier decision");
    }
    Map<String, Object> question = RoundMessage.of(round);
    question.put("policy", name);
    Map<?, ?> answer = answer(link, question);
    if (answer.get("fault") != null) {
      throw new Fault(String.valueOf(answer.get("fault")));
    }
    Object actions = answer.get("actions");
    RoundMessage.apply(
        actions instanceof List ? (List<?>) actions : Collections.emptyList(), round, absent);
  }

  private Map<?, ?> answer(WorkerLink link, Map<String, Object> question) {
    long askedNs = System.nanoTime();
    CompletableFuture<Map<?, ?>> coming = link.ask("plan", question);
    try {
      return coming.get(timeoutMs, TimeUnit.MILLISECONDS);
    } catch (TimeoutException tooLate) {
      late = coming;
      lateSinceNs = askedNs;
      countsNs = System.nanoTime() + timeoutMs * 1_000_000L;
      if (!worker.isInDriver()) {
        throw new Absent(name + " is silent"); // a process that hangs is started anew
      }
      throw new Fault("no answer within " + timeoutMs / 1_000.0 + " s");
    } catch (ExecutionException gone) {
      throw new Absent(gone.getMessage());
    } catch (InterruptedException closing) {
      Thread.currentThread().interrupt();
      throw new Absent("closing");
    }
  }
}
