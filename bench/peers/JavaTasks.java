// Virtual threads of Java 21 in the suite `tasks`, joined through their handles; run from this source by `java JavaTasks.java`.
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;

public class JavaTasks {
  static final Map<String, String> values = new HashMap<>();
  static final AtomicLong ended = new AtomicLong();

  static long number(String name) {
    try {
      return Long.parseLong(values.getOrDefault(name, ""));
    } catch (NumberFormatException e) {
      throw refuse("--" + name + " '" + values.getOrDefault(name, "") + "': must be a whole number");
    }
  }

  static RuntimeException refuse(String why) {
    System.err.println(why);
    System.exit(2);
    return new IllegalArgumentException(why);
  }

  /** No text here holds what JSON would escape. */
  static void print(double value, boolean verified, String failure, String note) {
    System.out.println("{\"value\":" + value + ",\"verified\":" + verified
        + (verified ? "" : ",\"failure\":\"" + failure + "\"") + (note.isEmpty() ? "" : ",\"note\":\"" + note + "\"")
        + ",\"about\":{\"libraries\":{\"java\":\"" + System.getProperty("java.version") + "\"},\"optimised\":true}}");
  }

  /** The peak of memory as the kernel accounts it. */
  static double peakMegabytes() throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith("VmHWM:")) {
        return Double.parseDouble(line.replaceAll("[^0-9]", "")) / 1024;
      }
    }
    return -1;
  }

  static double cpuSeconds() {
    var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    return system.getProcessCpuTime() / 1e9;
  }

  static void sleeper(long pause, long pauses) {
    try {
      for (long i = 0; i < pauses; ++i) {
        Thread.sleep(pause);
      }
      ended.incrementAndGet();
    } catch (InterruptedException e) {
      // Not ended as it should.
    }
  }

  static void sleep() throws Exception {
    long pause = number("pause_ms");
    long pauses = values.containsKey("pauses") ? number("pauses") : 1;
    Thread[] tasks = new Thread[(int) number("tasks")];
    long begin = System.nanoTime();
    for (int i = 0; i < tasks.length; ++i) {
      tasks[i] = Thread.startVirtualThread(() -> sleeper(pause, pauses));
    }
    for (Thread task : tasks) {
      task.join();
    }
    double took = (System.nanoTime() - begin) / 1e9;
    double peak = peakMegabytes();
    print("seconds".equals(values.get("figure")) ? took : peak, ended.get() == tasks.length,
        "of " + tasks.length + " threads " + ended.get() + " ended",
        String.format(Locale.ROOT, "%.2f s, %.0f MB, %.2f s of CPU", took, peak, cpuSeconds()));
  }

  static void send(ArrayBlockingQueue<Long> pipe, long from, long until) {
    try {
      for (long i = from; i < until; ++i) {
        pipe.put(i);
      }
    } catch (InterruptedException e) {
      // The sum will tell.
    }
  }

  static void channel() throws Exception {
    long items = number("items");
    long producers = number("producers");
    var pipe = new ArrayBlockingQueue<Long>((int) number("room"));
    var sum = new AtomicLong();
    long begin = System.nanoTime();
    for (long p = 0; p < producers; ++p) {
      long from = items * p / producers;
      long until = items * (p + 1) / producers;
      Thread.startVirtualThread(() -> send(pipe, from, until));
    }
    Thread receiver = Thread.startVirtualThread(() -> {
      long all = 0;
      try {
        for (long i = 0; i < items; ++i) {
          all += pipe.take();
        }
      } catch (InterruptedException e) {
        // The sum will tell.
      }
      sum.set(all);
    });
    receiver.join();
    double took = (System.nanoTime() - begin) / 1e9;
    print(items / took, sum.get() == items * (items - 1) / 2, "the numbers below " + items + " came to " + sum.get(), "");
  }

  public static void main(String[] given) throws Exception {
    if (given.length == 0) {
      throw refuse("the first argument must be a scenario");
    }
    for (int i = 1; i + 1 < given.length; i += 2) {
      values.put(given[i].substring(2), given[i + 1]);
    }
    if (values.containsKey("threads")) {
      // Read when the first virtual thread starts.
      System.setProperty("jdk.virtualThreadScheduler.parallelism", values.get("threads"));
      System.setProperty("jdk.virtualThreadScheduler.maxPoolSize", values.get("threads"));
    }
    switch (given[0]) {
      case "sleep" -> sleep();
      case "channel" -> channel();
      default -> throw refuse("there is no scenario '" + given[0] + "'; there is: sleep, channel");
    }
  }
}
