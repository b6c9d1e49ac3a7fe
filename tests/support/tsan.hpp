#pragma once

#include <gtest/gtest.h>

/// ThreadSanitizer gives every process a thread of its own, forked ones too. The kernel lets no process
/// with threads enter or make a user namespace, and counts a thread as a process.
#if __has_feature(thread_sanitizer)
#define BERTH_NEEDS_ONE_THREAD()                                                                             \
    GTEST_SKIP() << "ThreadSanitizer has a second thread in every process; run: ./dev test"
#else
#define BERTH_NEEDS_ONE_THREAD() static_cast<void>(0)
#endif
