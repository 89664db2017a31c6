package decima.spark;

import decima.policy.LiveJobs;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** For tests: the status after each report of a session. */
public final class ShowStatus {
  @SuppressWarnings("unchecked")
  public static void main(String[] arguments) throws Exception {
    Lines.answer(
        question -> {
          Status status = new Status();
          LiveJobs live = new LiveJobs();
          List<Object> found = new ArrayList<>();
          for (Object one : (List<?>) question.get("reports")) {
            Report report = Lines.MAPPER.convertValue(one, Report.class);
            live.update(report);
            status.note(report);
            status.notePlan(1);
            Map<String, Object> out = new LinkedHashMap<>();
            status.fill(out, live, (Map<String, Integer>) question.get("limits"));
            found.add(out);
          }
          return found;
        });
  }
}
