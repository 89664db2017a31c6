package decima.network;

/** Room for rows between layers; each thread needs its own. */
public final class Scratch {
  final float[] one;
  final float[] other;

  Scratch(int widest) {
    one = new float[widest];
    other = new float[widest];
  }
}
