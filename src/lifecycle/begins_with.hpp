#pragma once

#include <string_view>

namespace berth {

/// The label of a sandbox whose files begin with a snapshot, as a template that was built is one: which. One
/// that is asked for with it is made from that, and found again only by whoever asks for the same.
inline constexpr std::string_view kBeginsWithLabel = "berth.begins-with";

} // namespace berth
