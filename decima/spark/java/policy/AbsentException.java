package decima.policy;

/** A policy is not there to be asked, which is no failure of it: another decides. */
public final class AbsentException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** @param reason for logs. */
  public AbsentException(String reason) {
    super(reason);
  }
}
