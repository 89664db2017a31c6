package decima.spark;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;

/** Order and limits, as decided; it never changes. */
final class Plan {
  final long number;
  final HashMap limit = new HashMap();
  final HashMap rank = new HashMap();
  final HashSet seen = new HashSet();

  Plan() {
    number = 0;
  }

  Plan(String text) throws Exception {
    Map told = (Map) Json.MAPPER.readValue(text, Map.class);
    number = ((Number) told.get("number")).longValue();
    limit.putAll((Map) told.get("limits"));
    List chosen = (List) told.get("chosen");
    for (int index = 0; index < chosen.size(); index++) {
      rank.put(chosen.get(index), Integer.valueOf(index));
    }
    seen.addAll((List) told.get("others"));
  }

  int limitOf(String job) {
    Integer found = (Integer) limit.get(job);
    return found == null ? Control.NO_LIMIT : found.intValue();
  }
}
