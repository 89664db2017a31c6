package decima.spark;

/** For tests: whether a call, "touch" or "urge", ends a pause between two reports. */
public final class Pause {
  private static final long PAUSE_MS = 2_000;

  public static void main(String[] arguments) throws Exception {
    Lines.answer(
        question -> {
          Events events = new Events(null, 8);
          new Thread(question.get("by").equals("urge") ? events::urge : events::touch).start();
          long began = System.nanoTime();
          events.pause(PAUSE_MS);
          return System.nanoTime() - began < PAUSE_MS * 1_000_000L / 2;
        });
  }
}
