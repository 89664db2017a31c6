package decima.spark;

import java.util.Map;

/** For tests: why settings are refused; null: they are not. */
public final class TrySettings {
  @SuppressWarnings("unchecked")
  public static void main(String[] arguments) throws Exception {
    Lines.answer(
        settings -> {
          try {
            new Settings((Map<String, String>) (Map<?, ?>) settings);
            return null;
          } catch (IllegalArgumentException refused) {
            return refused.getMessage();
          }
        });
  }
}
