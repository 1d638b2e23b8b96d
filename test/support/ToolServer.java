import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.concurrent.SynchronousQueue;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Apache Kafka's command line tools one after the other in one JVM: starting one for each takes two seconds. A line
 * of input is a class and its arguments, in Base64 with spaces between; a line of output is the exit code and what went to
 * stdout and stderr, in Base64.
 */
public class ToolServer {
  /** Where the output of the current tool goes. */
  private static final class Target extends OutputStream {
    private volatile ByteArrayOutputStream bytes = new ByteArrayOutputStream();

    ByteArrayOutputStream begin() {
      return bytes = new ByteArrayOutputStream();
    }

    @Override
    public void write(int value) {
      bytes.write(value);
    }

    @Override
    public void write(byte[] from, int offset, int length) {
      bytes.write(from, offset, length);
    }
  }

  private static SynchronousQueue<Integer> ended;

  public static void main(String[] args) throws Exception {
    PrintStream answers = System.out;
    // Loggers keep the stderr that they find now.
    org.slf4j.LoggerFactory.getLogger(ToolServer.class);
    Target out = new Target();
    Target err = new Target();
    System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
    System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
    // Whoever ends the process stays where it is: nothing behind that may run.
    Exit.setExitProcedure((code, message) -> end(code));
    Exit.setHaltProcedure((code, message) -> end(code));
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split(" ");
      for (int i = 0; i < words.length; i++) {
        words[i] = new String(Base64.getDecoder().decode(words[i]), StandardCharsets.UTF_8);
      }
      ByteArrayOutputStream stdout = out.begin();
      ByteArrayOutputStream stderr = err.begin();
      int code = run(words);
      System.out.flush();
      System.err.flush();
      answers.println(code + " " + encode(stdout) + " " + encode(stderr));
      answers.flush();
    }
    Runtime.getRuntime().halt(0);
  }

  private static String encode(ByteArrayOutputStream bytes) {
    return bytes.size() == 0 ? "-" : Base64.getEncoder().encodeToString(bytes.toByteArray());
  }

  private static int run(String[] words) throws Exception {
    SynchronousQueue<Integer> mine = new SynchronousQueue<>();
    ended = mine;
    Thread tool = new Thread(() -> {
      int code = 0;
      try {
        String[] args = java.util.Arrays.copyOfRange(words, 1, words.length);
        Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) args);
      } catch (java.lang.reflect.InvocationTargetException error) {
        error.getCause().printStackTrace();
        code = 1;
      } catch (ReflectiveOperationException error) {
        error.printStackTrace();
        code = 1;
      }
      try {
        mine.put(code);
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
      }
    });
    tool.setDaemon(true);
    tool.start();
    return mine.take();
  }

  private static void end(int code) {
    try {
      ended.put(code);
      Thread.sleep(Long.MAX_VALUE);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }
}
