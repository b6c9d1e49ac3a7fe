// What sources include that know of coroutines. See cmake/Prelude.cmake.
#include "standard.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/json/value.hpp>
#include <fmt/format.h>
