// What tests include besides. See cmake/Prelude.cmake.
#include "waiting.hpp"

#include <fstream>
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
