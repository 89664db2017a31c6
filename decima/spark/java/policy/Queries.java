package decima.policy;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * Names by which a query is recognised from one run to the next: the rules of
 * traces/spark_log/names.py and traces/files/names.py, which a test compares them with.
 */
final class Queries {
  /** characters of a name that are shown */
  private static final int MAX_NAME = 200;
  private static final int DIGEST = 8;
  private static final Pattern RUN = pattern("(?: #\\d+)+$");
  private static final Pattern CALL_SITE = pattern("\\S+ at \\S+:\\d+");
  /** where pyspark calls Spark, whatever the program */
  private static final Pattern OF_ANYBODY = pattern("\\S+ at NativeMethodAccessorImpl\\.java:0");
  /** what the importer calls a job without a name */
  private static final Pattern STAND_IN = pattern("unnamed (?:job|query) \\d+");
  /** what structured streaming adds to a query's description for each micro-batch */
  private static final Pattern BATCH =
      pattern("\\s*\\brunId = [0-9a-f-]{36}\\s+batch = (?:\\d+|init)$");
  /** Spark's own description of the Spark job of a broadcast; its group is a number */
  private static final String BROADCAST = "broadcast exchange (runId ";
  /** what Python splits at */
  private static final Pattern BLANKS =
      Pattern.compile(
          "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+");

  private Queries() {}

  private static Pattern pattern(String expression) {
    return Pattern.compile(expression, Pattern.UNICODE_CHARACTER_CLASS);
  }

  /** Name of the query that a job is an instance of. */
  static final class Query {
    final String name;
    /** given by a person; else a place in a program, which may submit many different queries */
    final boolean isGiven;

    private Query(String name) {
      this.name = name;
      this.isGiven = !CALL_SITE.matcher(name).matches();
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Query && ((Query) other).name.equals(name);
    }

    @Override
    public int hashCode() {
      return name.hashCode();
    }
  }

  /** The names that identify a Spark job, best first; empty if nothing distinguishes it. */
  static List<Query> of(Map<?, ?> properties) {
    String description = (String) properties.get("spark.job.description");
    List<Query> queries = new ArrayList<>();
    add((String) properties.get("decima.job"), queries);
    if (description == null || !description.startsWith(BROADCAST)) {
      add(description, queries);
      add((String) properties.get("spark.jobGroup.id"), queries);
    }
    add((String) properties.get("callSite.short"), queries);
    return queries.isEmpty() ? Collections.emptyList() : queries;
  }

  /** Add the query of a job so called, whatever its run, unless the name identifies nothing. */
  private static void add(String name, List<Query> queries) {
    if (name == null) {
      return;
    }
    String plain = BATCH.matcher(RUN.matcher(clean(name)).replaceAll("")).replaceAll("");
    if (!plain.isEmpty()
        && !OF_ANYBODY.matcher(plain).matches()
        && !STAND_IN.matcher(plain).matches()) {
      queries.add(new Query(plain));
    }
  }

  /** The text printable, on one line, and if too long, cut and ended by its digest. */
  private static String clean(String text) {
    int length = text.codePointCount(0, text.length());
    if (length <= MAX_NAME && text.codePoints().allMatch(Queries::isPrintable)) {
      return text;
    }
    String begin = length <= 4 * MAX_NAME ? text : first(text, 4 * MAX_NAME);
    String printable = escaped(BLANKS.matcher(begin).replaceAll(" ").replaceAll("^ | $", ""));
    if (length <= 4 * MAX_NAME && printable.codePointCount(0, printable.length()) <= MAX_NAME) {
      return printable;
    }
    return first(printable, MAX_NAME - DIGEST - 1) + "…" + digest(text);
  }

  private static String first(String text, int count) {
    int length = text.codePointCount(0, text.length());
    return text.substring(0, text.offsetByCodePoints(0, Math.min(count, length)));
  }

  private static String escaped(String text) {
    StringBuilder escaped = new StringBuilder();
    text.codePoints()
        .forEach(
            one -> {
              if (isPrintable(one)) {
                escaped.appendCodePoint(one);
              } else {
                String form = one < 0x100 ? "\\x%02x" : one < 0x10000 ? "\\u%04x" : "\\U%08x";
                escaped.append(String.format(form, one));
              }
            });
    return escaped.toString();
  }

  private static boolean isPrintable(int character) {
    switch (Character.getType(character)) {
      case Character.CONTROL:
      case Character.FORMAT:
      case Character.SURROGATE:
      case Character.PRIVATE_USE:
      case Character.UNASSIGNED:
      case Character.LINE_SEPARATOR:
      case Character.PARAGRAPH_SEPARATOR:
        return false;
      case Character.SPACE_SEPARATOR:
        return character == ' ';
      default:
        return true;
    }
  }

  private static String digest(String text) {
    try {
      byte[] digest =
          MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
      return String.format("%064x", new BigInteger(1, digest)).substring(0, DIGEST);
    } catch (NoSuchAlgorithmException every) { // every Java has it
      throw new IllegalStateException(every);
    }
  }
}
