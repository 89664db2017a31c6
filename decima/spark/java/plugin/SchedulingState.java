package decima.spark;

/** What orders the tasks of a session, and why; metrics, status pages and logs show it. */
final class SchedulingState {
  /** From bad to good; the ordinal is the value of the metric. */
  enum Kind {
    NOTHING("nothing"),
    CAPS_ONLY("caps only"),
    STAND_IN("stand-in"),
    POLICY("policy decides");

    final String words;

    Kind(String words) {
      this.words = words;
    }
  }

  final Kind kind;
  /** one line */
  final String reason;

  SchedulingState(Kind kind, String reason) {
    this.kind = kind;
    this.reason = reason.split("\n")[0];
  }

  /** Whether plans of the policy or its stand-in are in force. */
  boolean isPlanned() {
    return kind == Kind.POLICY || kind == Kind.STAND_IN;
  }

  @Override
  public String toString() {
    return kind.words + ": " + reason;
  }
}
