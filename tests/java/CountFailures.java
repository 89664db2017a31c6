package decima.policy;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/**
 * For tests: plans for the reports of a line by a policy that does as it is asked, "raise", "pass" or
 * "fifo", one word for each round in which it is asked; answers with the failures in a row after each.
 */
public final class CountFailures {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private static final class Scripted implements Policy {
    private final Iterator<?> script;
    private final Policy fifo = new Fifo();

    private Scripted(List<?> script) {
      this.script = script.iterator();
    }

    @Override
    public String name() {
      return "scripted";
    }

    @Override
    public Action decide(Round round) {
      String word = (String) script.next();
      if (word.equals("raise")) {
        throw new IllegalStateException("asked to fail");
      }
      return word.equals("pass") ? Action.PASS : fifo.decide(round);
    }
  }

  @SuppressWarnings("unchecked")
  public static void main(String[] arguments) throws Exception {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      Map<?, ?> asked = MAPPER.readValue(line, Map.class);
      Planner planner = new Planner(new Scripted((List<?>) asked.get("script")), 1e9, 5_000);
      LiveJobs live = new LiveJobs();
      List<Integer> found = new ArrayList<>();
      for (Object report : (List<?>) asked.get("reports")) {
        Report next = new Report((Map<String, ?>) report);
        live.update(next);
        planner.plan(live, next.idleMs, next.idleSlots);
        found.add(planner.failuresInARow);
      }
      System.out.println(MAPPER.writeValueAsString(found));
    }
  }
}
