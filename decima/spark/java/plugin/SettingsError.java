package decima.spark;

/** A setting cannot be used; one line that names the value and the rule. */
final class SettingsError extends IllegalArgumentException {
  private static final long serialVersionUID = 1L;

  SettingsError(String reason) {
    super(reason);
  }
}
