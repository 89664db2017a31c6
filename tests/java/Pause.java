package decima.spark;

import java.io.BufferedReader;
import java.io.InputStreamReader;

/** For tests: what ends a pause between two reports, asked as {"by": "touch" or "urge"}. */
public final class Pause {
  private static final long PAUSE_MS = 2_000;

  public static void main(String[] arguments) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      Reader reader = new Reader(8);
      boolean isUrged = line.contains("urge");
      new Thread(isUrged ? reader::urge : reader::touch).start();
      long began = System.nanoTime();
      reader.pause(PAUSE_MS);
      System.out.println(System.nanoTime() - began < PAUSE_MS * 1_000_000L / 2);
    }
  }
}
