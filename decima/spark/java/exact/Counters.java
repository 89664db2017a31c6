package decima.spark;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

final class Counters {
  final AtomicLong plans = new AtomicLong();
  final AtomicLong rounds = new AtomicLong();
  final AtomicLong roundNs = new AtomicLong();
  final AtomicLong refused = new AtomicLong();
  final AtomicLong launches = new AtomicLong();
  final AtomicLong overLimit = new AtomicLong();
  final AtomicLong early = new AtomicLong();
  final AtomicLong expired = new AtomicLong();
  final AtomicLong lapses = new AtomicLong();
  final AtomicLong recoveries = new AtomicLong();
  final AtomicLong faults = new AtomicLong();
  final AtomicLong abandoned = new AtomicLong();

  private static final int KEPT_WAITS = 1000;
  private final long[] waitNs = new long[KEPT_WAITS];
  private int waits = 0;

  synchronized void noteWait(long ns) {
    waitNs[waits % KEPT_WAITS] = ns;
    waits++;
  }

  /** Quantile of the newest waits for a first decision, in milliseconds; 0 if there were none. */
  private synchronized double waitMs(double share) {
    int count = Math.min(waits, KEPT_WAITS);
    if (count == 0) {
      return 0.0;
    }
    long[] sorted = java.util.Arrays.copyOf(waitNs, count);
    java.util.Arrays.sort(sorted);
    return sorted[(int) Math.min(count - 1, Math.round(share * (count - 1)))] / 1000000.0;
  }

  Map now(Control control) {
    LinkedHashMap out = new LinkedHashMap();
    out.put("plans", plans);
    out.put("offer_rounds", rounds);
    out.put("offer_round_ns", roundNs);
    out.put("refused_offers", refused);
    out.put("launches_under_limit", launches);
    out.put("launches_over_limit", overLimit);
    out.put("early_launches", early);
    out.put("expired_holds", expired);
    out.put("lapses", lapses);
    out.put("recoveries", recoveries);
    out.put("faults", faults);
    out.put("abandoned", abandoned);
    out.put("task_sets", control.watched.size());
    out.put("first_decision_ms_median", waitMs(0.5));
    out.put("first_decision_ms_p90", waitMs(0.9));
    out.put("held", control.held);
    return out;
  }
}
