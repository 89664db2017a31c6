package decima.policy;

import java.util.Map;

/** The work of an application for a coordinator (decima/spark/coordinator/messages.py). */
public final class ApplicationMessage {
  private final LiveGraphs graphs = new LiveGraphs();

  /** The columns of `RoundMessage`; null if no job has work. */
  public Map<String, Object> of(LiveJobs live) {
    LiveTables found = LiveTables.ofApplication(live, graphs);
    return found == null ? null : RoundMessage.of(new Round(found.tables));
  }
}
