package decima.spark;

import java.io.IOException;
import java.util.List;
import java.util.Map;

/**
 * For tests: writes lines to a log of bounded size; answers why it is refused, or null. With "more",
 * writes to the log before, which then stays open, and answers whether it still is.
 */
public final class WriteLog {
  private static LogFiles files;

  public static void main(String[] arguments) throws Exception {
    Lines.answer(
        question -> {
          try {
            if (question.get("more") == null) {
              open(question);
            }
            for (Object row : (List<?>) question.get("rows")) {
              files.write(Lines.MAPPER.writeValueAsString(row));
            }
            return question.get("more") == null ? null : files.isOpen();
          } catch (IOException refused) {
            return refused.getMessage();
          }
        });
  }

  private static void open(Map<?, ?> question) throws IOException {
    if (files != null) {
      files.close();
    }
    files =
        new LogFiles(
            (String) question.get("path"),
            ((Number) question.get("max_bytes")).longValue(),
            ((Number) question.get("files")).intValue(),
            Lines.MAPPER.writeValueAsString(question.get("header")));
  }
}
