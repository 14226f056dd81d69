import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;

/** Methods that get hot, so that the virtual machine compiles them, and compiles them anew when an assumption fails. */
public class Compiled {
    interface Shape {
        double area();
    }

    record Square(double side) implements Shape {
        public double area() {
            return side * side;
        }
    }

    record Circle(double radius) implements Shape {
        public double area() {
            return 3 * radius * radius;
        }
    }

    static long collatz(long limit) {
        long longest = 0;
        for (long start = 1; start < limit; start++) {
            long steps = 0;
            for (long n = start; n != 1; n = n % 2 == 0 ? n / 2 : 3 * n + 1) {
                steps++;
            }
            longest = Math.max(longest, steps);
        }
        return longest;
    }

    static double areas(Shape[] shapes, int rounds) {
        double sum = 0;
        for (int round = 0; round < rounds; round++) {
            for (Shape shape : shapes) {
                sum += shape.area();
            }
        }
        return sum;
    }

    public static void main(String[] args) {
        int rounds = Integer.parseInt(args[0]);
        System.out.println(collatz(rounds * 20L));
        Shape[] shapes = new Shape[100];
        for (int i = 0; i < shapes.length; i++) {
            shapes[i] = new Square(i);
        }
        System.out.println(areas(shapes, rounds));
        // Up to here, there were squares only.
        for (int i = 0; i < shapes.length; i += 3) {
            shapes[i] = new Circle(i);
        }
        System.out.println(areas(shapes, rounds));
        HashMap<String, Integer> words = new HashMap<>();
        for (int i = 0; i < rounds * 10; i++) {
            words.merge("word" + i * 7919 % 1000, 1, Integer::sum);
        }
        ArrayList<String> keys = new ArrayList<>(words.keySet());
        Collections.sort(keys);
        System.out.println(keys.get(0) + " " + words.get(keys.get(0)) + " " + keys.size());
    }
}
