package decima.spark;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/** Counts since attaching. */
final class Counters {
  /** by the names that `now` reports */
  private final Map<String, AtomicLong> counts = new LinkedHashMap<>();
  final AtomicLong plans = counter("plans");
  private final AtomicLong rounds = counter("offer_rounds");
  private final AtomicLong roundNs = counter("offer_round_ns");
  final AtomicLong refused = counter("refused_offers");
  final AtomicLong launches = counter("launches_under_limit");
  final AtomicLong overLimit = counter("launches_over_limit");
  final AtomicLong overCap = counter("launches_over_cap");
  final AtomicLong early = counter("early_launches");
  final AtomicLong expired = counter("expired_holds");
  final AtomicLong lapses = counter("lapses");
  final AtomicLong recoveries = counter("recoveries");
  final AtomicLong faults = counter("faults");
  final AtomicLong abandoned = counter("abandoned");

  private final Latencies roundTimes = new Latencies();
  /** from a new task set to the first plan that knows it */
  final Latencies waits = new Latencies();

  private long openRoundNs = 0;

  private AtomicLong counter(String name) {
    AtomicLong count = new AtomicLong();
    counts.put(name, count);
    return count;
  }

  /** An offer round begins, and the one before is over; under the scheduler's lock. */
  void beginRound(long ns) {
    if (rounds.getAndIncrement() > 0) {
      roundTimes.note(openRoundNs);
    }
    openRoundNs = ns;
    roundNs.addAndGet(ns);
  }

  /** Add to the plugin's part of the round; under the scheduler's lock. */
  void addToRound(long ns) {
    openRoundNs += ns;
    roundNs.addAndGet(ns);
  }

  Map<String, Object> now(Control control) {
    Map<String, Object> out = new LinkedHashMap<>();
    counts.forEach((name, count) -> out.put(name, count.get()));
    out.put("offer_round_us_median", 1e6 * roundTimes.quantile(0.5));
    out.put("offer_round_us_p99", 1e6 * roundTimes.quantile(0.99));
    out.put("task_sets", control.watched.size());
    out.put("first_decision_ms_median", 1000.0 * waits.quantile(0.5));
    out.put("first_decision_ms_p90", 1000.0 * waits.quantile(0.9));
    out.put("held", control.held);
    return out;
  }

  /** The newest of many times, for their quantiles. */
  static final class Latencies {
    private static final int KEPT = 1_000;
    private final long[] ns = new long[KEPT];
    private int count = 0;

    synchronized void note(long took) {
      ns[count++ % KEPT] = took;
    }

    /** In seconds; 0 if there were none. */
    synchronized double quantile(double share) {
      int known = Math.min(count, KEPT);
      if (known == 0) {
        return 0.0;
      }
      long[] sorted = Arrays.copyOf(ns, known);
      Arrays.sort(sorted);
      return sorted[(int) Math.round(share * (known - 1))] / 1e9;
    }
  }
}
