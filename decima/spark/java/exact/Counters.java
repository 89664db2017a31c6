package decima.spark;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/** Counts since attaching. */
final class Counters {
  final AtomicLong plans = new AtomicLong();
  private final AtomicLong rounds = new AtomicLong();
  private final AtomicLong roundNs = new AtomicLong();
  final AtomicLong refused = new AtomicLong();
  final AtomicLong launches = new AtomicLong();
  final AtomicLong overLimit = new AtomicLong();
  final AtomicLong overCap = new AtomicLong();
  final AtomicLong early = new AtomicLong();
  final AtomicLong expired = new AtomicLong();
  final AtomicLong lapses = new AtomicLong();
  final AtomicLong recoveries = new AtomicLong();
  final AtomicLong faults = new AtomicLong();
  final AtomicLong abandoned = new AtomicLong();

  private final Latencies roundTimes = new Latencies();
  /** from a new task set to the first plan that knows it */
  final Latencies waits = new Latencies();

  private long openRoundNs = 0;

  /** An offer round begins, and the one before is over; under the scheduler's lock. */
  void beginRound(long ns) {
    if (rounds.getAndIncrement() > 0) {
      roundTimes.note(openRoundNs);
    }
    openRoundNs = ns;
    roundNs.addAndGet(ns);
  }

  /** The plugin's part of it took so much longer; likewise. */
  void addToRound(long ns) {
    openRoundNs += ns;
    roundNs.addAndGet(ns);
  }

  Map<String, Object> now(Control control) {
    Map<String, Object> out = new LinkedHashMap<>();
    out.put("plans", plans.get());
    out.put("offer_rounds", rounds.get());
    out.put("offer_round_ns", roundNs.get());
    out.put("offer_round_us_median", 1e6 * roundTimes.quantile(0.5));
    out.put("offer_round_us_p99", 1e6 * roundTimes.quantile(0.99));
    out.put("refused_offers", refused.get());
    out.put("launches_under_limit", launches.get());
    out.put("launches_over_limit", overLimit.get());
    out.put("launches_over_cap", overCap.get());
    out.put("early_launches", early.get());
    out.put("expired_holds", expired.get());
    out.put("lapses", lapses.get());
    out.put("recoveries", recoveries.get());
    out.put("faults", faults.get());
    out.put("abandoned", abandoned.get());
    out.put("task_sets", control.watched.size());
    out.put("first_decision_ms_median", 1000.0 * waits.quantile(0.5));
    out.put("first_decision_ms_p90", 1000.0 * waits.quantile(0.9));
    out.put("held", control.held);
    return out;
  }
}
