// What the verbs of the command line include besides. See cmake/Prelude.cmake.
#include "waiting.hpp"

#include <iostream>

#include <CLI/CLI.hpp>
