#pragma once

#include <string>

#include "backend/docker/life.hpp"

/// Starting a container that ran before.
namespace berth::docker {

/// An engine that was killed as a container ended may keep something of it that nobody can take away, and can
/// then never start it again. Such a one goes on as another container, with the same files, settings, labels
/// and name; the record knows which. Under the lock of the directory.
[[nodiscard]] Status start_again(const Where& where, int directory, const std::string& native,
                                 Instance& instance);

/// Removes the container that another has taken the place of; none is success.
[[nodiscard]] Status remove_former(const Engine& engine, const Instance& instance);

} // namespace berth::docker
