// A device of a maker that PyTorch does not know, on PyTorch's PrivateUse1 key. Its memory is the host's, which only
// its own kernels and copies touch. It has kernels for few operators; the maker's boxed fallback runs all others on the
// CPU and says nothing. Planted fault: a sum forgets the last element of a row whose length leaves a rest of 3 by 4.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

namespace {

using at::IntArrayRef;
using at::Scalar;
using at::Tensor;

constexpr auto kTiny = c10::DeviceType::PrivateUse1;

// ---- memory, guard, hooks

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes ? std::malloc(bytes) : nullptr;
    return {data, data, &std::free, at::Device(kTiny, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};
Memory memory;
REGISTER_ALLOCATOR(kTiny, &memory)

struct Guard final : c10::impl::NoOpDeviceGuardImpl<kTiny> {
  c10::Device exchangeDevice(c10::Device) const override { return {kTiny, 0}; }
  c10::Device getDevice() const override { return {kTiny, 0}; }
  c10::Stream getStream(c10::Device) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, {kTiny, 0}); }
  void synchronizeDevice(c10::DeviceIndex) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
};
[[maybe_unused]] const bool hooked = (at::RegisterPrivateUse1HooksInterface(new Hooks), true);

// ---- tensors, views, copies

Tensor empty(IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_generic(size, &memory, keys, c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(IntArrayRef size, IntArrayRef stride, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_strided_generic(size, stride, &memory, keys, c10::dtype_or_default(dtype));
}

// What the copy engine sees: the same bytes as a tensor of the host.
Tensor bytes_of(const Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
}

Tensor copy_from(const Tensor& source, const Tensor& target, bool) {
  auto host = bytes_of(target);
  at::native::copy_(host, bytes_of(source));
  return target;
}

const Tensor& resize_(const Tensor& self, IntArrayRef size, std::optional<at::MemoryFormat>) {
  const auto wanted = at::detail::computeStorageNbytesContiguous(size, self.element_size(), self.storage_offset());
  const auto& storage = self.storage();
  if (wanted > storage.nbytes()) {
    auto made = memory.allocate(wanted);
    std::memcpy(made.get(), storage.data(), storage.nbytes());
    storage.set_data_ptr_noswap(std::move(made));
    storage.set_nbytes(wanted);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return self;
}

Tensor copy_from_and_resize(const Tensor& source, const Tensor& target) {
  resize_(target, source.sizes(), std::nullopt);
  return copy_from(source, target, false);
}

Scalar local_scalar_dense(const Tensor& self) { return at::native::_local_scalar_dense_cpu(bytes_of(self)); }

// ---- the maker's fallback

void boxed_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
}

// ---- kernels: float32 only; what is of another dtype goes to the CPU from inside the kernel

template <class Op, class... Args>
decltype(auto) on_the_cpu(Args&&... args) {
  return at::native::call_fallback_fn<&boxed_fallback, Op>::call(std::forward<Args>(args)...);
}

void set_all(const Tensor& self, const Scalar& value) { bytes_of(self).fill_(value); }

// Contiguous float32 of the device with this shape. A number from the host is spread over it.
Tensor dense(const Tensor& given, IntArrayRef shape) {
  TORCH_CHECK_NOT_IMPLEMENTED(given.is_cpu() || given.scalar_type() == at::kFloat, "tiny has float32 only");
  if (!given.is_cpu()) return given.expand(shape).contiguous();
  auto made = empty(shape, at::kFloat, {}, {}, {}, {});
  set_all(made, given.item());
  return made;
}

template <class Function>
Tensor& elementwise(const Tensor& a, const Tensor& b, Tensor& out, Function function) {
  const auto shape = at::infer_size(a.sizes(), b.sizes());
  const Tensor left = dense(a, shape), right = dense(b, shape);
  auto made = at::empty_like(left);
  const float *x = left.data_ptr<float>(), *y = right.data_ptr<float>();
  float* z = made.data_ptr<float>();
  for (int64_t i = 0; i < made.numel(); ++i) z[i] = function(x[i], y[i]);
  at::native::resize_output(out, shape);
  return out.copy_(made);
}

Tensor& add_out(const Tensor& a, const Tensor& b, const Scalar& alpha, Tensor& out) {
  const float scale = alpha.toFloat();
  return elementwise(a, b, out, [=](float x, float y) { return x + scale * y; });
}

Tensor& sub_out(const Tensor& a, const Tensor& b, const Scalar& alpha, Tensor& out) {
  const float scale = alpha.toFloat();
  return elementwise(a, b, out, [=](float x, float y) { return x - scale * y; });
}

Tensor& mul_out(const Tensor& a, const Tensor& b, Tensor& out) {
  if (out.scalar_type() != at::kFloat) return on_the_cpu<at::_ops::mul_out>(a, b, out);
  return elementwise(a, b, out, [](float x, float y) { return x * y; });
}

Tensor& exp_out(const Tensor& a, Tensor& out) {
  return elementwise(a, a, out, [](float x, float) { return std::exp(x); });
}

Tensor relu(const Tensor& a) {
  auto out = at::empty_like(a);
  return elementwise(a, a, out, [](float x, float) { return x > 0 || std::isnan(x) ? x : 0.0f; });
}

Tensor& threshold_backward_out(const Tensor& gradient, const Tensor& a, const Scalar& threshold, Tensor& out) {
  const float limit = threshold.toFloat();
  return elementwise(gradient, a, out, [=](float g, float x) { return x <= limit ? 0.0f : g; });
}

Tensor& mm_out(const Tensor& a, const Tensor& b, Tensor& out) {
  const auto rows = a.size(0), inner = a.size(1), columns = b.size(1);
  const Tensor left = dense(a, a.sizes()), right = dense(b, b.sizes());
  auto made = empty({rows, columns}, at::kFloat, {}, {}, {}, {});
  const float *x = left.data_ptr<float>(), *y = right.data_ptr<float>();
  float* z = made.data_ptr<float>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      float sum = 0;
      for (int64_t k = 0; k < inner; ++k) sum += x[r * inner + k] * y[k * columns + c];
      z[r * columns + c] = sum;
    }
  at::native::resize_output(out, made.sizes());
  return out.copy_(made);
}

Tensor& addmm_out(const Tensor& bias, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                  Tensor& out) {
  auto product = empty({0}, at::kFloat, {}, {}, {}, {});
  mm_out(a, b, product);
  const float scale = alpha.toFloat(), share = beta.toFloat();
  return elementwise(bias, product, out, [=](float x, float y) { return share * x + scale * y; });
}

Tensor& sum_out(const Tensor& a, at::OptionalIntArrayRef dims, bool keep, std::optional<at::ScalarType>, Tensor& out) {
  std::vector<int64_t> order, kept, rest;
  for (int64_t d = 0; d < a.dim(); ++d) {
    bool summed = !dims || dims->empty();
    if (dims)
      for (auto asked : *dims) summed |= (asked < 0 ? asked + a.dim() : asked) == d;
    (summed ? rest : order).push_back(d);
    if (!summed) kept.push_back(a.size(d));
    else if (keep) kept.push_back(1);
  }
  int64_t length = 1;
  for (auto d : rest) length *= a.size(d), order.push_back(d);
  const auto rows = dense(a, a.sizes()).permute(order).contiguous();
  auto made = empty(kept, at::kFloat, {}, {}, {}, {});
  const float* x = rows.data_ptr<float>();
  float* z = made.data_ptr<float>();
  const auto done = length % 4 == 3 ? length - 1 : length;  // the planted fault
  for (int64_t r = 0; r < made.numel(); ++r) {
    float sum = 0;
    for (int64_t i = 0; i < done; ++i) sum += x[r * length + i];
    z[r] = sum;
  }
  at::native::resize_output(out, kept);
  return out.copy_(made);
}

Tensor& fill_scalar_(Tensor& self, const Scalar& value) {
  set_all(self, value);
  return self;
}

Tensor& zero_(Tensor& self) { return fill_scalar_(self, 0); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", static_cast<Tensor (*)(const Tensor&, IntArrayRef)>(&at::native::view));
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("resize_", &resize_);
  m.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
  m.impl("set_.source_Storage", static_cast<Tensor& (*)(Tensor&, at::Storage)>(&at::native::set_));
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar_dense);
  m.impl("fill_.Scalar", &fill_scalar_);
  m.impl("zero_", &zero_);
  m.impl("add.out", &add_out);
  m.impl("sub.out", &sub_out);
  m.impl("mul.out", &mul_out);
  m.impl("exp.out", &exp_out);
  m.impl("relu", &relu);
  m.impl("threshold_backward.grad_input", &threshold_backward_out);
  m.impl("mm.out", &mm_out);
  m.impl("addmm.out", &addmm_out);
  m.impl("sum.IntList_out", &sum_out);
  // As makers do for an operator whose composite kernel they do not want.
  m.impl("cos.out", torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
}

}  // namespace
