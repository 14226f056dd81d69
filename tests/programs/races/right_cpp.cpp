// What C++ has: threads, mutexes, shared ones, call_once, conditions, futures, atomics, static variables, shared pointers.
#include <atomic>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

std::mutex mutex;
std::shared_mutex shared;
std::once_flag flag;
std::condition_variable changed;
std::atomic<int> count;
std::atomic<bool> published;
int carried, received;
int guarded, once, text_length, waited;
std::string text;

static const std::vector<int> &table()
{
    static const std::vector<int> all(10, 3);
    return all;
}

static void work(std::shared_ptr<std::vector<int>> numbers)
{
    std::call_once(flag, [] { once = 1; });
    for (int i = 0; i < 20; i++) {
        std::lock_guard<std::mutex> own(mutex);
        guarded += once + (*numbers)[i % numbers->size()];
        count++;
    }
    {
        std::unique_lock<std::shared_mutex> own(shared);
        text += "another piece of text";
    }
    {
        std::shared_lock<std::shared_mutex> own(shared);
        if (text.empty() || table()[3] != 3)
            std::abort();
    }
    std::unique_lock<std::mutex> own(mutex);
    waited++;
    changed.notify_all();
    changed.wait(own, [] { return waited == 2; });
}

int main()
{
    auto numbers = std::make_shared<std::vector<int>>(4, 1);
    std::thread one(work, numbers), other(work, numbers);
    numbers.reset();
    std::thread gives([] {
        carried = 5;
        published.store(true, std::memory_order_release);
    });
    std::thread takes([] {
        while (!published.load(std::memory_order_acquire))
            std::this_thread::yield();
        received = carried;
    });
    gives.join();
    takes.join();
    auto future = std::async(std::launch::async, [] { return std::string(100, 'x'); });
    std::string result = future.get();
    one.join();
    other.join();
    return received != 5 || guarded != 80 || count != 40 || result.size() != 100;
}
