"""The paper's experiments on CIFAR-10, and how certified confidence agrees with people's."""
