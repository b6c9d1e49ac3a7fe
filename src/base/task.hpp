#pragma once

#include <boost/asio/awaitable.hpp>

namespace berth {

/// A coroutine that yields a T. Parameters are taken by value unless the caller awaits at once.
template <class T> using Task = boost::asio::awaitable<T>;

} // namespace berth
