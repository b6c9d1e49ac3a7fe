// What nearly every source of ours includes. Nothing that brings initialisers with it, as Asio and <iostream>
// do: they would run before main() once for each source. See cmake/Prelude.cmake.
#include "standard.hpp"

#include <boost/json/value.hpp>
#include <fmt/format.h>
