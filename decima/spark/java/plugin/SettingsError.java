package decima.spark;

/** A setting cannot be used; one line that names the value and the rule. */
final class SettingsError extends IllegalArgumentException {
  private static final long serialVersionUID = 1L;

  /** it is a cap that cannot be read, or there is no such setting: a cap may have been meant */
  final boolean isOfCap;

  SettingsError(String reason) {
    this(reason, false);
  }

  SettingsError(String reason, boolean isOfCap) {
    super(reason);
    this.isOfCap = isOfCap;
  }
}
