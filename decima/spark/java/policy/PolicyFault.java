package decima.policy;

/** A policy outside the JVM failed; the message says how. */
public final class PolicyFault extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** @param reason one line. */
  public PolicyFault(String reason) {
    super(reason);
  }
}
