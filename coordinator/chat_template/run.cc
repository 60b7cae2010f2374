#include "coordinator/chat_template/run.h"

namespace krait::chat_template {

void Scope::set(NameId name, Value value) {
  for (auto& [id, old] : variables) {
    if (id != name) continue;
    old = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

const Value* Scope::find_here(NameId name) const {
  for (const auto& [id, value] : variables) {
    if (id == name) return &value;
  }
  return nullptr;
}

Run::~Run() {
  for (const auto& space : namespaces_) {
    // One value at a time: what goes may hold the last reference to another container, never to a namespace.
    space->attributes.clear();
  }
  for (Scope& scope : kept_scopes_)
    scope.variables.clear();
}

const Value* Run::find(NameId name) const {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    if (const Value* value = scope->find_here(name)) return value;
  }
  return nullptr;
}

Scope& Run::keep_scope(const Scope* parent) {
  budget_.take(sizeof(Scope));
  kept_scopes_.push_back(Scope{parent, {}});
  return kept_scopes_.back();
}

Value Run::make_namespace() {
  budget_.take(sizeof(Namespace));
  auto space = std::make_shared<Namespace>();
  namespaces_.push_back(space);
  return Value::object(Kind::kNamespace, std::move(space));
}

}  // namespace krait::chat_template
