"""Proximal policy optimisation in the style of single-file implementations."""

import random
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
import tyro
from torch.distributions.categorical import Categorical
from torch.utils.tensorboard import SummaryWriter


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self, envs):
        super().__init__()
        size = np.array(envs.single_observation_space.shape).prod()
        self.critic = nn.Sequential(layer_init(nn.Linear(size, 64)), nn.Tanh(), layer_init(nn.Linear(64, 1), std=1.0))
        self.actor = nn.Sequential(layer_init(nn.Linear(size, 64)), nn.Tanh(), layer_init(nn.Linear(64, 2), std=0.01))

    def get_action_and_value(self, x, action=None):
        logits = self.actor(x)
        probs = Categorical(logits=logits)
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


def main():
    args = tyro.cli(dict)
    writer = SummaryWriter("runs")
    random.seed(1)
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")])
    agent = Agent(envs)
    optimizer = optim.Adam(agent.parameters(), lr=1e-3, eps=1e-5)
    rewards = torch.zeros((args.steps, 4))
    next_obs = torch.Tensor(envs.reset()[0])
    returns = []
    for t in reversed(range(args.steps)):
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
        next_obs, reward, done, _, _ = envs.step(action.cpu().numpy())
        rewards[t] = torch.tensor(reward).view(-1)
        returns.append(torch.as_tensor(np.logical_or(done, done)).cumsum(0))
    indices = np.arange(args.steps)
    np.random.shuffle(indices)
    _, newlogprob, entropy, newvalue = agent.get_action_and_value(next_obs, rewards.long()[indices])
    logratio = newlogprob - torch.stack(returns).mean(0)
    ratio = logratio.exp()
    approx_kl = ((ratio - 1) - logratio).mean()
    adv = (rewards - rewards.mean()) / (rewards.std() + 1e-8)
    loss = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 0.8, 1.2)).mean() - 0.01 * entropy.mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
    optimizer.step()
    y_pred, y_true = newvalue.cpu().numpy(), rewards.cpu().numpy()
    writer.add_scalar("explained", 1 - np.var(y_true - y_pred) / np.var(y_true), approx_kl.item())
    print("SPS", int(args.steps / (time.time() - 1.0)))
