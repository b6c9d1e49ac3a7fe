#pragma once

#include "cli/app.hpp"
#include "core/sandbox_spec.hpp"

namespace berth::cli {

/// On backend local a template "image:NAME" is one that `berth template pull` fetched: by its digest from
/// here on, so that a name that moves on changes nothing that was made. Other backends have names of their
/// own.
[[nodiscard]] Status use_pulled_image(const Common& common, const std::string& backend, SandboxSpec& spec);

} // namespace berth::cli
